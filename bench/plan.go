package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/forecast"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/plan"
	"github.com/ecrec/ecrec/transport"

	"golang.org/x/sys/unix"
)

var planBench = Bench{
	Name: "plan",
	Doc:  "predictions of ecrec plan over the measures of runs with 1 to 16 processes",
	Detail: "Each repeat predicts a job and runs it three times. The work of a step is the time of all cores for it, of two runs of different lengths. " +
		"The memory is that of all processes of a third run at its peak, without the program, which they share. " +
		"With a link, each process has a network namespace of its own, whose traffic is shaped to the rate. That needs root and iproute2.",
	Settings: []Setting{
		numbers("processes", "1,2,4,8,16", 1, 64, "numbers of processes, with a rank each").orTiny("2"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("steps", "60", 2, maxSteps, "steps of the longer run").orTiny("4"),
		text("code", "none", "as ec.code; xor needs 3 processes or more", "erasure code").orTiny("none"),
		choice("model", plannedShape.name, []string{plannedShape.name, plannedSmall.name}, "model; dim16 has small layers"),
		text("link", "none", "a rate such as 1Gb/s, or none", "link of each process, as if it had a machine of its own"),
		modeSetting,
	},
	Bars: []Bar{{nil, "predictions are within 10 % of real runs", oneWay(
		atLeast(plannedMemory, Median, 0.9), atMost(plannedMemory, Median, 1.1), atLeast(plannedStep, Median, 0.9), atMost(plannedStep, Median, 1.1))}},
	measure: runPlan,
}

// The ends of the names of ratios, for each number of processes.
const (
	plannedMemory = "memory predicted / measured"
	plannedStep   = "step predicted / measured"
)

// plannedShape is a model of few rows, all of which a short run touches: a row has memory from its first use on, and the plan counts all.
var plannedShape = shape{"dim64", 64, []int{512, 256, 64}, []int{512, 256, 1}, "[" + strings.TrimSuffix(strings.Repeat("500, ", 26), ", ") + "]", "", ""}

// plannedSmall has small layers, so that messages matter.
var plannedSmall = shape{"dim16", 16, []int{64, 16}, []int{64, 1}, plannedShape.tables, "", ""}

// planRun is one run of the benchmark.
type planRun struct {
	o       Options
	program string
	dir     string
	path    string // of the config
	link    *transport.EmulatedLink
}

// ran is the cost of a run.
type ran struct {
	step   float64 // seconds, the median
	work   float64 // seconds of all cores
	memory float64 // bytes of all processes; 0: it could not be read
}

// newPlanRun writes the config of the model. The caller removes the folder.
func newPlanRun(o Options) (b *planRun, err error) {
	s := plannedShape
	switch {
	case o.Tiny:
		s = tinyShape
	case o.text("model") == plannedSmall.name:
		s = plannedSmall
	}
	b = &planRun{o: o}
	if b.program, err = o.programPath(); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "ecrec-bench-*"); err != nil {
		return nil, err
	}
	b.path = filepath.Join(b.dir, "bench.toml")
	if err := os.WriteFile(b.path, []byte(s.toml(job{batch: 1, ranks: 1}, b.dir)), 0o644); err != nil {
		_ = os.RemoveAll(b.dir)
		return nil, err
	}
	return b, nil
}

func runPlan(out io.Writer, o Options) (report *Report, err error) {
	b, err := newPlanRun(o)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.dir)
	if link := o.text("link"); link != "none" {
		l, err := transport.ParseEmulatedLink(link + ",0s")
		if err != nil {
			return nil, settingError("setting link=%s: want a rate such as 1Gb/s, or none", link)
		}
		b.link = &l
	}
	report = o.newReport("cpu")
	report.writeHeader(out)
	t := table(out)
	fmt.Fprintln(t, "processes\t\tpredicted\tmeasured\tpredicted / measured\tleast\tgreatest\t")
	for _, text := range strings.Split(o.text("processes"), ",") {
		n, _ := strconv.Atoi(text) // the setting is checked
		if err := b.compare(t, report, n); err != nil {
			return nil, err
		}
	}
	return report, t.Flush()
}

// compare predicts and runs a job on a number of processes.
func (b *planRun) compare(out io.Writer, report *Report, n int) error {
	var predicted, measured [3][]float64
	for turn := 0; b.o.moreTurns(turn, b.o.repeats()); turn++ {
		f, err := b.predict(n)
		if err != nil {
			return err
		}
		steps := b.o.number("steps")
		var watched, short, long ran
		for _, run := range []struct {
			to      *ran
			steps   int
			watched bool
		}{{&watched, steps, true}, {&short, steps / 2, false}, {&long, steps, false}} {
			if *run.to, err = b.timeRun(n, b.sets(n, run.steps), run.watched); err != nil {
				return err
			}
		}
		cores := float64(runtime.NumCPU())
		for i, x := range [][2]float64{{1e3 * f.Times.Step, 1e3 * long.step},
			{1e3 * f.Times.Cores * cores, 1e3 * max(0, long.work-short.work) / float64(steps-steps/2)},
			{(f.MostMemory.Sum() + float64(n-1)*f.Memory.Sum()) / (1 << 20), watched.memory / (1 << 20)}} {
			predicted[i], measured[i] = append(predicted[i], x[0]), append(measured[i], x[1])
		}
	}
	for i, what := range []struct{ name, unit string }{{"step", "ms"}, {"work of a step", "ms"}, {"memory", "MiB"}} {
		if i == 2 && b.link != nil { // the processes have no common parent
			continue
		}
		name := fmt.Sprintf("%d processes, %s", n, what.name)
		p := report.addFigure(name+" predicted", what.unit, predicted[i]...)
		m := report.addFigure(name+" measured", what.unit, measured[i]...)
		ratio := report.addPaired(name+" predicted / measured", ratioUnit, quotients(predicted[i], measured[i])...)
		fmt.Fprintf(out, "%d\t%s, %s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", n, what.name, what.unit, p.Median, m.Median, ratio.Median, ratio.Min, ratio.Max)
	}
	return nil
}

// quotients are those of two lists, 0 where nothing was measured.
func quotients(a, b []float64) (q []float64) {
	for i := range a {
		if b[i] == 0 {
			q = append(q, 0)
			continue
		}
		q = append(q, a[i]/b[i])
	}
	return q
}

// sets are the settings of a job.
func (b *planRun) sets(n, steps int) []string {
	threads := 0
	if b.link != nil {
		threads = 1
	}
	return []string{fmt.Sprint("job.ranks=", n), fmt.Sprint("job.threads=", threads), "job.save_model=false", fmt.Sprint("train.iterations=", steps),
		"train.global_batch=" + b.o.text("batch"), "ec.code=" + b.o.text("code"), "ec.k=2", "cache.mode=" + b.o.text("mode"),
		"optimizer.sparse.kind=rowwise_adagrad"}
}

func (b *planRun) predict(n int) (*plan.Forecast, error) {
	cfg, err := config.LoadFor(n, b.path, b.sets(n, b.o.number("steps")))
	if err != nil {
		return nil, err
	}
	o := forecast.Options{PerHost: n, Progress: func(data.Progress) error { return nil }}
	if free, ok := machine.AvailableMemory(); ok {
		o.FreeMemory = float64(free)
	}
	if b.link != nil {
		o.PerHost, o.SharedBy, o.Link = 1, n, b.link
	}
	f, _, err := forecast.Run(env.Real(), cfg, o)
	return f, err
}

// timeRun runs a job to its end, in a number of processes. If its memory is watched, it takes longer: the system walks through the pages of
// each process again and again.
func (b *planRun) timeRun(n int, sets []string, watched bool) (r ran, err error) {
	args := []string{"train", b.path, "--overwrite"}
	for _, set := range sets {
		args = append(args, "--set", set)
	}
	var commands [][]string
	if b.link == nil {
		commands = [][]string{append([]string{b.program}, append(args, "--np", strconv.Itoa(n))...)}
	} else {
		m, err := newMachines(n, b.link.BytesPerS)
		if err != nil {
			return r, err
		}
		defer m.remove()
		commands = m.commands(append([]string{b.program}, args...))
	}
	runtime.LockOSThread() // endWithParent ends the children with this thread
	defer runtime.UnlockOSThread()
	before := usedTime(unix.RUSAGE_CHILDREN)
	if r.memory, err = runTogether(commands, watched); err != nil {
		return r, fmt.Errorf("bench: a run of %d processes: %w", n, err)
	}
	r.work = (usedTime(unix.RUSAGE_CHILDREN) - before).Seconds()
	text, err := os.ReadFile(filepath.Join(b.dir, "summary.json"))
	if err != nil {
		return r, err
	}
	var summary struct {
		StepMS struct {
			P50 float64 `json:"p50"`
		} `json:"step_ms"`
	}
	err = json.Unmarshal(text, &summary)
	r.step = summary.StepMS.P50 / 1e3
	return r, err
}

// runTogether runs commands at the same time, until all have ended. If watched is set, memory is the most of the first one and its
// descendants.
func runTogether(commands [][]string, watched bool) (memory float64, err error) {
	started := make([]*exec.Cmd, len(commands))
	errs := make([]bytes.Buffer, len(commands))
	for i, args := range commands {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.SysProcAttr, cmd.Stderr = endWithParent(), &errs[i]
		if err = cmd.Start(); err != nil {
			break
		}
		started[i] = cmd
	}
	over, most := make(chan struct{}), make(chan float64, 1)
	if watched && started[0] != nil {
		go watchMemory(started[0].Process.Pid, over, most)
	} else {
		most <- 0
	}
	ends := make(chan error)
	running := 0
	for i, cmd := range started {
		if cmd == nil {
			continue
		}
		running++
		go func() {
			ended := cmd.Wait()
			if ended != nil {
				ended = fmt.Errorf("%w: %s", ended, bytes.TrimSpace(errs[i].Bytes()))
			}
			ends <- ended
		}()
	}
	for stopped := false; running > 0; running-- {
		if err != nil && !stopped { // the others would wait for a process that has ended
			stopped = true
			for _, cmd := range started {
				if cmd != nil {
					_ = cmd.Process.Kill() // an error if it has ended
				}
			}
		}
		err = cmp.Or(err, <-ends)
	}
	close(over)
	return <-most, err
}
