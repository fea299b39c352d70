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
		number("scale", "1", 1, 10_000, "divides the rows of each table"),
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
	_, err := train.Run(env.Real(), cfg, train.Options{Observer: t, Stop: b.o.isStopped, Resume: resume, SaveTo: saveTo,
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
	if scale := o.number("scale"); scale > 1 && !o.Tiny {
		b.shape = b.shape.scaleRows(int64(scale))
	}
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
	r := o.newReport(t.info.Device)
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
	run := func(name string, more int, resume string, prepare func() error, sets ...string) (string, func() (restartTimes, error)) {
		return name, func() (x restartTimes, err error) {
			if prepare != nil {
				if err := prepare(); err != nil {
					return x, err
				}
			}
			t, cpu, err := b.runJob(steps+more, resume, "", sets...)
			if err != nil {
				return x, err
			}
			return restartTimes{t.perStep(), cpu, t.toFirst()}, nil
		}
	}
	removeLogs := func() error { return os.RemoveAll(store) }
	saveOnce := func() error { // a checkpoint of the step at which the logs end
		if _, err := os.Stat(saved); err == nil {
			return nil
		}
		_, _, err := b.runJob(steps, "", "", withSaves)
		return err
	}
	_, times, err := runTurns(b.o, b.o.repeats(), func(turn func(string, func() (restartTimes, error))) {
		turn(run("without logs", 0, "", nil))
		turn(run("with logs", 0, "", removeLogs, withLogs))
		turn(run("from the logs", 1, "auto", saveOnce, withLogs))
		turn(run("rows on the disk", 2, "auto", nil, withLogs, "store.tier=file", "store.dram_bytes="+b.o.text("dram")))
		turn(run("from a checkpoint", 1, saved, nil, "checkpoint.dir="))
	})
	if err != nil {
		return err
	}
	of := func(job int, value func(restartTimes) float64) (values []float64) {
		for _, turn := range times {
			values = append(values, value(turn[job]))
		}
		return values
	}
	step, cpu := func(t restartTimes) float64 { return t.step }, func(t restartTimes) float64 { return t.cpu }
	first := func(t restartTimes) float64 { return t.first }
	t := table(out)
	fmt.Fprintln(t, "\tmedian\tleast\tgreatest\t\tinterval\t")
	for _, f := range []Figure{
		r.addFigure("step without logs", "ms", of(0, step)...), r.addFigure("step with logs", "ms", of(1, step)...),
		r.addRatio("with / without, of a turn", of(1, step), of(0, step)),
		r.addRatio("CPU time of the jobs, with / without", of(1, cpu), of(0, cpu)),
		r.addFigure("start to the first step, from the logs", "s", of(2, first)...),
		r.addFigure("start to the first step, rows on the disk", "s", of(3, first)...),
		r.addFigure("start to the first step, from a checkpoint", "s", of(4, first)...),
		r.addRatio("from the logs / from a checkpoint", of(2, first), of(4, first)),
		r.addRatio("rows on the disk / from a checkpoint", of(3, first), of(4, first)),
	} {
		f.writeLine(t, 3)
	}
	return t.Flush()
}

// restartTimes are those of a job: ms and CPU ms of a step, and seconds to the end of the first one.
type restartTimes struct{ step, cpu, first float64 }
