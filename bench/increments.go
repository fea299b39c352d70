package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/train"
)

var incrementsBench = Bench{
	Name: "increments",
	Doc:  "cost of incremental checkpoints, beside training and while it waits, and of full ones",
	Detail: "Jobs take turns: without checkpoints, with increments beside training, with increments that training waits for (pause, copy " +
		"the changed rows, write), and with full checkpoints beside training. A job begins without rows, and the second half of its steps is " +
		"timed. Bytes are those of the increments that were saved then, and of the rows in them.",
	Settings: []Setting{
		choice("model", "dim48", []string{"dim64", "dim64-bare", "dim48", "dim16", "dim16-bare", "dim48-bare"}, "model to train"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("ranks", "1", 1, 1024, "number of ranks"),
		threadsSetting,
		number("steps", "200", 4, maxSteps, "steps of a job").orTiny("12"),
		text("every", "10s", "as checkpoint.every", "time or steps between checkpoints").orTiny("2"),
		modeSetting,
		dirSetting,
	},
	measure: runIncrements,
}

// incrementsRun is one run of the benchmark.
type incrementsRun struct {
	o     Options
	shape shape
	job   job
	dir   string
	info  train.Info
}

// savingTimes are those of the second half of a job's steps.
type savingTimes struct {
	ms, cpu, longest            float64
	saves, bytes, rows, rowSize float64
}

func runIncrements(out io.Writer, o Options) (*Report, error) {
	b := &incrementsRun{o: o, shape: o.models(o.text("model"))[0]}
	b.job = job{batch: o.number("batch"), ranks: o.number("ranks"), threads: o.number("threads")}
	var err error
	if b.dir, err = o.tempDir(); err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.dir)
	names, times, err := runTurns(o, o.repeats(), b.runTurn)
	if err != nil {
		return nil, err
	}
	r := o.newReport(b.info.Device)
	r.writeHeader(out)
	fmt.Fprintf(out, "%s, batch %d, %d ranks, %d threads, cache.mode %s, a checkpoint every %s: %d rows of %d bytes\n", b.shape.name,
		b.job.batch, b.job.ranks, b.info.Threads, o.text("mode"), o.text("every"), b.info.Rows, b.info.BytesPerRow)
	return r, b.report(out, r, names, times)
}

// runTurn runs each job once.
func (b *incrementsRun) runTurn(run func(name string, job func() (savingTimes, error))) {
	every := "checkpoint.every=" + b.o.text("every")
	saving := func(pause bool, sets ...string) func() (savingTimes, error) {
		return func() (savingTimes, error) { return b.runSaving(pause, sets...) }
	}
	run("no checkpoints", saving(false))
	run("increments beside training", saving(false, every, "checkpoint.kind=incremental"))
	run("increments, training waits", saving(true, every, "checkpoint.kind=incremental"))
	run("full ones beside training", saving(false, every))
}

// runSaving runs one job.
func (b *incrementsRun) runSaving(pause bool, sets ...string) (x savingTimes, err error) {
	dir := filepath.Join(b.dir, "checkpoints")
	if err := os.RemoveAll(dir); err != nil {
		return x, err
	}
	if len(sets) > 0 {
		sets = append(sets, "checkpoint.dir="+dir)
	}
	steps := b.o.number("steps")
	cfg, err := b.shape.config(b.job, append([]string{"cache.mode=" + b.o.text("mode"), fmt.Sprint("train.iterations=", steps),
		"train.keep=last"}, sets...)...)
	if err != nil {
		return x, err
	}
	t := &stepTimer{halfTimer: halfTimer{half: int64(steps) / 2, meter: &train.Meter{}}}
	saveRows := 0
	if b.o.Tiny && !pause {
		saveRows = 64 // else training waits for small saves
	}
	_, err = train.Run(env.Real(), cfg, train.Options{Observer: t, Stop: b.o.isStopped, Meter: t.meter, PauseSaves: pause,
		SaveRows: saveRows, Progress: func(data.Progress) error { return nil }})
	if err == nil && t.steps == 0 {
		err = errors.New("bench: the job trained too few steps")
	}
	if err != nil {
		return x, err
	}
	b.info = t.info
	slices.Sort(t.ms)
	n := float64(t.steps)
	x = savingTimes{ms: 1e3 * t.last.sub(t.first.time) / n, cpu: 1e3 * (t.last.cpu - t.first.cpu).Seconds() / n,
		longest: t.ms[len(t.ms)-1] / t.ms[len(t.ms)/2], rowSize: float64(t.info.BytesPerRow)}
	return x, errors.Join(t.err, x.addSaves(dir, t.half, int64(steps)))
}

// addSaves adds the increments of the steps after first and before last.
func (x *savingTimes) addSaves(dir string, first, last int64) error {
	found, err := checkpoint.List(env.Real(), dir)
	for _, f := range found {
		if f.Err != nil {
			return f.Err
		}
		if f.Step <= first || f.Step >= last { // training waits for the last one
			continue
		}
		x.saves++
		for _, file := range f.AllFiles() {
			if f.IsIncrement() {
				x.bytes, x.rows = x.bytes+float64(file.Bytes), x.rows+float64(file.Rows)
			}
		}
	}
	return err
}

// stepTimer also records the time of each step.
type stepTimer struct {
	halfTimer
	before time.Time
	ms     []float64 // of the steps after half
}

func (t *stepTimer) Step(s train.StepInfo) {
	now := time.Now()
	if s.Step > t.half {
		t.ms = append(t.ms, 1e3*now.Sub(t.before).Seconds())
	}
	t.before = now
	t.halfTimer.Step(s)
}

// report compares each job with the one of the same turn that has no checkpoints.
func (b *incrementsRun) report(out io.Writer, r *Report, names []string, times [][]savingTimes) error {
	t := table(out)
	fmt.Fprintln(t, "\tms per step\tof that without\tinterval\tCPU ms\tlongest step / median\tsaves\tMB written\tof the rows' bytes\t")
	for i, name := range names {
		var ms, plain, cpu, longest, saves, written, extra []float64
		for _, turn := range times {
			x := turn[i]
			ms, cpu, plain = append(ms, x.ms), append(cpu, x.cpu), append(plain, turn[0].ms)
			longest, saves, written = append(longest, x.longest), append(saves, x.saves), append(written, x.bytes/1e6)
			if x.rows > 0 {
				extra = append(extra, x.bytes/(x.rows*x.rowSize))
			}
		}
		first := len(r.Figures)
		ratio, verdict := r.addRatio("time, of that without checkpoints", ms, plain), ""
		if i > 0 {
			verdict = ratio.betweenText(3)
		}
		ofRows := "-"
		if len(extra) > 0 {
			ofRows = fmt.Sprintf("%.3f", r.addAs(Counted, "bytes of increments, of their rows'", ratioUnit, extra...).Median)
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.3f\t%s\t%.2f\t%.2f\t%.0f\t%.1f\t%s\t\n", name, r.addFigure("step", "ms", ms...).Median,
			ratio.Median, verdict, r.addFigure("CPU", "ms/step", cpu...).Median,
			r.addFigure("longest step of the median", ratioUnit, longest...).Median, r.addAs(Counted, "saves", "saves", saves...).Median,
			r.addAs(Counted, "bytes of increments", "MB", written...).Median, ofRows)
		r.setCase(first, map[string]string{"system": name, "every": b.o.text("every"), "ranks": strconv.Itoa(b.job.ranks)})
	}
	return t.Flush()
}
