package bench

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/train"
)

var lossesBench = Bench{
	Name: "losses",
	Doc:  "losses over steps of all cache modes and numbers of processes, and beside PyTorch's",
	Detail: "Jobs with the same seed, in every cache mode and spread over processes, whose losses and digests should be equal. Then a run " +
		"that PyTorch has " +
		"made: the same weights, samples and order are trained here, and the losses of each step are compared. The run of this " +
		"program " +
		"has 20 steps; tools/python/golden.py makes others where PyTorch is installed.",
	Settings: []Setting{
		choice("model", "dim48-bare", []string{"dim48-bare", "dim16-bare", "dim48", "dim16"}, "model to train"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("ranks", "2", 1, 1024, "number of ranks"),
		numbers("processes", "1,2", 1, 64, "processes that the ranks are spread over").orTiny("1"),
		number("steps", "50", 2, maxSteps, "steps of a job").orTiny("4"),
		number("points", "25", 2, 10_000, "steps whose losses are reported"),
		text("golden", "", "a folder", "a run of PyTorch. Default: the one of this program"),
		threadsSetting,
	},
	measure: runLosses,
}

//go:embed golden
var goldenFiles embed.FS

// lossRun is the result of a job.
type lossRun struct {
	mode      string
	processes int
	losses    []float64
	digest    string
	ms        float64 // of a step; 0: not measured
}

func runLosses(out io.Writer, o Options) (*Report, error) {
	s, info := o.models(o.text("model"))[0], train.Info{}
	for _, n := range o.numbers("processes") {
		if n > o.number("ranks") {
			return nil, settingError("processes=%d: want at most ranks=%d", n, o.number("ranks"))
		}
	}
	var runs []lossRun
	for _, processes := range o.numbers("processes") {
		for _, mode := range lrpp.ModeNames() {
			o.mustRun()
			x := lossRun{mode: mode, processes: processes}
			var err error
			if processes == 1 {
				info, err = o.loseHere(s, &x)
			} else {
				err = o.loseInProcesses(s, &x)
			}
			if err != nil {
				return nil, err
			}
			runs = append(runs, x)
		}
	}
	golden, ours, err := o.runGolden()
	if err != nil {
		return nil, err
	}
	r := o.newReport(info.Device)
	r.writeHeader(out)
	fmt.Fprintf(out, "%s, batch %d, %d ranks, %d steps\n", s.name, o.number("batch"), o.number("ranks"), o.number("steps"))
	return r, r.addLosses(out, o, runs, golden, ours)
}

// lossSettings are those of all jobs.
func (o Options) lossSettings(mode string) []string {
	return []string{"cache.mode=" + mode, fmt.Sprint("train.iterations=", o.number("steps")), "train.keep=last", "train.log_every=1",
		"job.save_model=false"}
}

// loseHere runs a job in this process.
func (o Options) loseHere(s shape, x *lossRun) (info train.Info, err error) {
	cfg, err := s.config(job{batch: o.number("batch"), ranks: o.number("ranks"), threads: o.number("threads")}, o.lossSettings(x.mode)...)
	if err != nil {
		return info, err
	}
	t := &timedSteps{}
	result, err := train.Run(env.Real(), cfg, train.Options{Observer: t, Stop: o.isStopped,
		Progress: func(data.Progress) error { return nil }})
	if err != nil {
		return info, err
	}
	x.losses, x.digest, x.ms = result.TrainLoss, result.Digest, t.perStep()
	return t.info, nil
}

// loseInProcesses runs a job of several processes.
func (o Options) loseInProcesses(s shape, x *lossRun) error {
	program, err := o.programPath()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ecrec-bench-*")
	if err != nil {
		return err
	}
	o.Progress.addFolder(dir)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "bench.toml")
	if err := os.WriteFile(path, []byte(s.toml(job{batch: o.number("batch"), ranks: o.number("ranks"), threads: o.number("threads")},
		dir)), 0o644); err != nil {
		return err
	}
	args := []string{"train", path, "--np", strconv.Itoa(x.processes)}
	for _, set := range o.lossSettings(x.mode) {
		args = append(args, "--set", set)
	}
	runtime.LockOSThread() // endWithParent ends the child with this thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr = endWithParent()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := o.runCommand(cmd); err != nil {
		return fmt.Errorf("bench: a job of %d processes: %v: %s", x.processes, err, bytes.TrimSpace(errs.Bytes()))
	}
	return x.readResult(dir)
}

// readResult reads the digest and the losses that a job has written.
func (x *lossRun) readResult(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil {
		return err
	}
	var summary struct {
		Digest string `json:"digest"`
	}
	if err := json.Unmarshal(text, &summary); err != nil {
		return err
	}
	x.digest = summary.Digest
	if text, err = os.ReadFile(filepath.Join(dir, "metrics.jsonl")); err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		var step struct {
			Step int64    `json:"step"`
			Loss *float64 `json:"loss"`
		}
		if err := json.Unmarshal([]byte(line), &step); err != nil {
			return err
		}
		if step.Loss != nil {
			x.losses = append(x.losses, *step.Loss)
		}
	}
	return nil
}

// goldenRun is the result of PyTorch.
type goldenRun struct {
	TrainLoss []float64 `json:"train_loss"`
}

// runGolden trains the run of PyTorch.
func (o Options) runGolden() (golden goldenRun, ours []float64, err error) {
	dir := o.text("golden")
	if dir == "" {
		if dir, err = os.MkdirTemp("", "ecrec-bench-*"); err != nil {
			return golden, nil, err
		}
		defer os.RemoveAll(dir)
		o.Progress.addFolder(dir)
		if err := os.CopyFS(dir, goldenFiles); err != nil {
			return golden, nil, err
		}
		dir = filepath.Join(dir, "golden")
	}
	text, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err == nil {
		err = json.Unmarshal(text, &golden)
	}
	if err != nil {
		return golden, nil, settingError("golden=%s: %v", o.text("golden"), err)
	}
	temp, err := os.MkdirTemp("", "ecrec-bench-*")
	if err != nil {
		return golden, nil, err
	}
	o.Progress.addFolder(temp)
	defer os.RemoveAll(temp)
	cfg, err := config.Load(filepath.Join(dir, "config.toml"), []string{"job.out=" + temp, "job.save_model=false"})
	if err != nil {
		return golden, nil, err
	}
	result, err := train.Run(env.Real(), cfg, train.Options{Observer: silent{}, Stop: o.isStopped,
		Progress: func(data.Progress) error { return nil }})
	if err != nil {
		return golden, nil, err
	}
	if len(result.TrainLoss) != len(golden.TrainLoss) {
		return golden, nil, fmt.Errorf("bench: %s: %d steps, and PyTorch has %d", dir, len(result.TrainLoss), len(golden.TrainLoss))
	}
	return golden, result.TrainLoss, nil
}

// addLosses reports the runs.
func (r *Report) addLosses(out io.Writer, o Options, runs []lossRun, golden goldenRun, ours []float64) error {
	t := table(out)
	fmt.Fprintln(t, "cache.mode\tprocesses\tfirst loss\tlast loss\tlargest difference\tms per step\tdigest\t")
	var digests []string
	for _, x := range runs {
		if len(x.losses) != len(runs[0].losses) {
			return errors.New("bench: the jobs have different numbers of steps")
		}
		worst := 0.0
		for i, l := range x.losses {
			worst = max(worst, math.Abs(l-runs[0].losses[i]))
		}
		of := map[string]string{"mode": x.mode, "processes": strconv.Itoa(x.processes)}
		first := len(r.Figures)
		r.addAs(Counted, "largest difference", "", worst)
		step := "-"
		if x.ms > 0 {
			step = fmt.Sprintf("%.2f", r.addFigure("step", "ms", x.ms).Median)
		}
		r.setCase(first, of)
		r.addSteps("loss", x.losses, o.number("points"), of)
		digests = append(digests, x.digest)
		fmt.Fprintf(t, "%s\t%d\t%.6f\t%.6f\t%.3g\t%s\t%s\t\n", x.mode, x.processes, x.losses[0], x.losses[len(x.losses)-1], worst, step, x.digest)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	slices.Sort(digests)
	n := len(slices.Compact(digests))
	fmt.Fprintf(out, "\n%d digests of %d jobs\n", n, len(runs))
	r.addAs(Counted, "digests", "", float64(n))
	r.addAs(Counted, "jobs", "", float64(len(runs)))
	worst := 0.0
	for i, l := range ours {
		worst = max(worst, math.Abs(l-golden.TrainLoss[i]))
	}
	r.addSteps("loss", ours, o.number("points"), map[string]string{"golden": "ecrec"})
	r.addSteps("loss", golden.TrainLoss, o.number("points"), map[string]string{"golden": "PyTorch"})
	first := len(r.Figures)
	r.addAs(Counted, "largest difference", "", worst)
	r.setCase(first, map[string]string{"golden": "ecrec"})
	_, err := fmt.Fprintf(out, "from the same weights and samples, the losses of %d steps differ by at most %.2g from PyTorch's\n",
		len(ours), worst)
	return err
}

// addSteps reports some values of steps, the first and the last among them.
func (r *Report) addSteps(name string, values []float64, points int, of map[string]string) {
	last := -1
	for i := range points {
		at := i * (len(values) - 1) / (points - 1)
		if at == last {
			continue
		}
		last = at
		c := map[string]string{"step": strconv.Itoa(at + 1)}
		for k, v := range of {
			c[k] = v
		}
		first := len(r.Figures)
		r.addAs(Counted, name, "", values[at])
		r.setCase(first, c)
	}
}
