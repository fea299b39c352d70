package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/train"
)

var restartBench = Bench{
	Name: "restart",
	Doc:  "cost of the logs of store.path, and the time to go on from them or a checkpoint",
	Detail: "Jobs without logs and with them take turns. All of their rows are touched from the start. Then jobs go on from the logs " +
		"and from a checkpoint of the same step, by turns: the time is from the start of the job to the end of its first step. " +
		"Once rows stay on the disk (store.tier = \"file\"). " +
		"Files may be in the page cache.",
	Settings: []Setting{
		choice("model", "dim16-bare", []string{"dim48", "dim16", "dim16-bare", "dim48-bare"}, "model to train"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("ranks", "2", 1, 1024, "number of ranks"),
		threadsSetting,
		number("steps", "200", 4, maxSteps, "steps of a job").orTiny("6"),
		number("every", "10", 1, 1<<20, "steps between commits").orTiny("2"),
		text("dram", "1GiB", "as store.dram_bytes", "memory for rows of each rank, where rows stay on the disk"),
		modeSetting,
		dirSetting,
	},
	measure: runRestart,
}

// restartRun is one run of the benchmark.
type restartRun struct {
	o     Options
	shape shape
	job   job
	dir   string
	first string // the model file that all jobs begin with
	info  train.Info
}

// timedSteps records the times of a job.
type timedSteps struct {
	silent
	began, started time.Time
	info           train.Info
	steps          []time.Time // their ends
}

func (t *timedSteps) Started(i train.Info) error { t.info, t.started = i, time.Now(); return nil }
func (t *timedSteps) Step(train.StepInfo)        { t.steps = append(t.steps, time.Now()) }

// toFirst is the time from the start of the job to the end of its first step, in seconds.
func (t *timedSteps) toFirst() float64 { return t.steps[0].Sub(t.began).Seconds() }

// perStep is the mean time of a step without the first, in milliseconds.
func (t *timedSteps) perStep() float64 {
	n := len(t.steps) - 1
	return 1e3 * t.steps[n].Sub(t.steps[0]).Seconds() / float64(n)
}

// runJob trains a job up to a step, and returns its times and the CPU time of a step in milliseconds.
func (b *restartRun) runJob(steps int, resume, saveTo string, sets ...string) (*timedSteps, float64, error) {
	sets = append([]string{"cache.mode=" + b.o.text("mode"), fmt.Sprint("train.iterations=", steps),
		fmt.Sprint("ec.commit_every=", b.o.number("every")), "model.init_from=" + b.first, "train.keep=last"}, sets...)
	cfg, err := b.shape.config(b.job, sets...)
	if err != nil {
		return nil, 0, err
	}
	return b.runConfig(cfg, resume, saveTo)
}

func (b *restartRun) runConfig(cfg *config.Config, resume, saveTo string) (*timedSteps, float64, error) {
	t := &timedSteps{began: time.Now()}
	cpu := cpuTime()
	_, err := train.Run(env.Real(), cfg, train.Options{Observer: t, Stop: func() bool { return false }, Resume: resume, SaveTo: saveTo,
		Progress: func(data.Progress) error { return nil }})
	if err == nil && len(t.steps) == 0 {
		err = errors.New("bench: the job trained no step")
	}
	if err != nil {
		return nil, 0, err
	}
	return t, 1e3 * (cpuTime() - cpu).Seconds() / float64(len(t.steps)), nil
}

func runRestart(out io.Writer, o Options) (*Report, error) {
	b := &restartRun{o: o, shape: o.models(o.text("model"))[0]}
	b.job = job{batch: o.number("batch"), ranks: o.number("ranks"), threads: o.number("threads")}
	var err error
	if b.dir, err = o.tempDir(); err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.dir)
	first := filepath.Join(b.dir, "first.safetensors")
	t, _, err := b.runJob(1, "", first)
	if err != nil {
		return nil, err
	}
	b.first, b.info = first, t.info
	r := newReport("restart", t.info.Device)
	r.writeHeader(out)
	fmt.Fprintf(out, "%s, batch %d, %d ranks, %d threads, cache.mode %s: %.3f GB of rows, a commit every %d steps\n",
		b.shape.name, b.job.batch, b.job.ranks, t.info.Threads, o.text("mode"), float64(t.info.Rows)*float64(t.info.BytesPerRow)/1e9, o.number("every"))
	return r, b.measureAll(out, r)
}

// measureAll runs the jobs by turns.
func (b *restartRun) measureAll(out io.Writer, r *Report) error {
	steps := b.o.number("steps")
	store, saved := filepath.Join(b.dir, "store"), filepath.Join(b.dir, "checkpoints")
	withLogs, withSaves := "store.path="+store, "checkpoint.dir="+saved
	var plain, logged, ratio, cpu, logs, loaded, left []float64
	for turn := range b.o.repeats() {
		a, cpuA, err := b.runJob(steps, "", "")
		if err != nil {
			return err
		}
		if err := os.RemoveAll(store); err != nil {
			return err
		}
		x, cpuX, err := b.runJob(steps, "", "", withLogs)
		if err != nil {
			return err
		}
		if turn == 0 { // a checkpoint of the step at which the logs end
			if _, _, err := b.runJob(steps, "", "", withSaves); err != nil {
				return err
			}
		}
		fromLogs, _, err := b.runJob(steps+1, "auto", "", withLogs)
		if err != nil {
			return err
		}
		inPlace, _, err := b.runJob(steps+2, "auto", "", withLogs, "store.tier=file", "store.dram_bytes="+b.o.text("dram"))
		if err != nil {
			return err
		}
		fromSave, _, err := b.runJob(steps+1, saved, "", "checkpoint.dir=")
		if err != nil {
			return err
		}
		plain, logged = append(plain, a.perStep()), append(logged, x.perStep())
		ratio, cpu = append(ratio, x.perStep()/a.perStep()), append(cpu, cpuX/cpuA)
		logs, loaded, left = append(logs, fromLogs.toFirst()), append(loaded, fromSave.toFirst()), append(left, inPlace.toFirst())
	}
	t := table(out)
	fmt.Fprintln(t, "\tmedian\tleast\tgreatest\t\t")
	for _, f := range []struct {
		what, unit string
		values     []float64
	}{
		{"step without logs", "ms", plain}, {"step with logs", "ms", logged}, {"with / without, of a turn", "", ratio},
		{"CPU time of the jobs, with / without", "", cpu}, {"start to the first step, from the logs", "s", logs},
		{"the same, and rows stay on the disk", "s", left}, {"the same, from a checkpoint", "s", loaded},
	} {
		x := r.addFigure(f.what, f.unit, f.values...)
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.3f\t%s\t\n", f.what, x.Median, x.Min, x.Max, f.unit)
	}
	return t.Flush()
}
