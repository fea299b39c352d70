package bench

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/train"
)

var incrementsBench = Bench{
	Name: "increments",
	Doc:  "cost of incremental checkpoints, beside training and while it waits, and of full ones",
	Detail: "Jobs take turns: with increments beside training, with increments that training waits for (pause, copy the changed rows, " +
		"write), and with full checkpoints beside training. A job writes all rows and trains without saves. Then it saves a full " +
		"checkpoint, and trains an interval, which is not timed. The intervals after it are, each with a save at its begin, until " +
		"the last save has ended. Steps without saves come before and after, and the time is compared with theirs. A job of increments " +
		"without one in the timed part is an error. Bytes are those of the increments that were saved then, and of the rows in them.",
	Settings: []Setting{
		choice("model", "dim48", []string{"dim64", "dim64-bare", "dim48", "dim16", "dim16-bare", "dim48-bare"}, "model to train"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("ranks", "1", 1, 1024, "number of ranks"),
		threadsSetting,
		number("scale", "8", 1, 10_000, "divides the rows of each table"),
		number("every", "100", 2, maxSteps, "steps of an interval").orTiny("4"),
		number("intervals", "3", 1, 1000, "timed intervals"),
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

// savingTimes are those of a job: of the timed intervals, and without saves.
type savingTimes struct {
	ms, cpu, plain, longest                 float64
	saves, increments, bytes, rows, rowSize float64
}

func runIncrements(out io.Writer, o Options) (*Report, error) {
	b := &incrementsRun{o: o, shape: o.models(o.text("model"))[0]}
	if scale := o.number("scale"); scale > 1 && !o.Tiny {
		b.shape = b.shape.scaleRows(int64(scale))
	}
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
	fmt.Fprintf(out, "%s, batch %d, %d ranks, %d threads, cache.mode %s, a checkpoint every %d steps: %d rows of %d bytes\n", b.shape.name,
		b.job.batch, b.job.ranks, b.info.Threads, o.text("mode"), o.number("every"), b.info.Rows, b.info.BytesPerRow)
	return r, b.report(out, r, names, times)
}

// runTurn runs each job once.
func (b *incrementsRun) runTurn(run func(name string, job func() (savingTimes, error))) {
	saving := func(pause bool, kind string) func() (savingTimes, error) {
		return func() (savingTimes, error) { return b.runSaving(pause, kind) }
	}
	run("increments beside training", saving(false, kindIncremental))
	run("increments, training waits", saving(true, kindIncremental))
	run("full ones beside training", saving(false, kindFull))
}

// The values of checkpoint.kind.
const kindIncremental, kindFull = "incremental", "full"

// runSaving runs one job.
func (b *incrementsRun) runSaving(pause bool, kind string) (x savingTimes, err error) {
	dir := filepath.Join(b.dir, "checkpoints")
	if err := os.RemoveAll(dir); err != nil {
		return x, err
	}
	cfg, err := b.shape.config(b.job, "cache.mode="+b.o.text("mode"), "train.keep=last", "checkpoint.dir="+dir, "checkpoint.keep=0",
		"checkpoint.kind="+kind, "checkpoint.every="+b.o.text("every"))
	if err != nil {
		return x, err
	}
	saveRows := 0
	if b.o.Tiny && !pause {
		saveRows = 512 // else training waits for small saves
	}
	const most = 1 << 20 // steps
	w := &savingWindow{every: b.o.number("every"), intervals: b.o.number("intervals"), pause: pause}
	b.info, err = train.Try(env.Real(), cfg, train.Options{Observer: &w.saves, Stop: neverStop, SaveRows: saveRows,
		Progress: func(data.Progress) error { return nil }}, most, func(t *train.Trial) (err error) {
		pass, err := startWritten(t, cfg.Cache.Mode, most)
		if err != nil {
			return err
		}
		defer func() { pass.Close(err) }()
		return w.train(&savingRank{w: w, t: t, pass: pass})
	})
	if err != nil {
		return x, err
	}
	x = w.times(float64(b.info.BytesPerRow))
	if err := x.addSaves(dir, w.saves.saved); err != nil {
		return x, err
	}
	if kind == kindIncremental && x.increments == 0 {
		return x, fmt.Errorf("bench: none of the %g checkpoints in %d intervals of %d steps is an increment: they hold too many of the rows; "+
			"use a smaller every or scale", x.saves, w.intervals, w.every)
	}
	return x, nil
}

// addSaves adds the checkpoints of some steps.
func (x *savingTimes) addSaves(dir string, steps []int64) error {
	found, err := checkpoint.List(env.Real(), dir)
	for _, f := range found {
		if f.Err != nil {
			return f.Err
		}
		if !slices.Contains(steps, f.Step) {
			continue
		}
		x.saves++
		if !f.IsIncrement() {
			continue
		}
		x.increments++
		for _, file := range f.AllFiles() {
			x.bytes, x.rows = x.bytes+float64(file.Bytes), x.rows+float64(file.Rows)
		}
	}
	return err
}

// report compares each job with its own steps without saves.
func (b *incrementsRun) report(out io.Writer, r *Report, names []string, times [][]savingTimes) error {
	t := table(out)
	fmt.Fprintln(t, "\tms per step\twithout\tratio\tinterval\tCPU ms\tlongest step / median\tsaves\tincrements\tMB of increments\tof the "+
		"rows' bytes\t")
	for i, name := range names {
		var ms, plain, cpu, longest, saves, increments, written, extra []float64
		for _, turn := range times {
			x := turn[i]
			ms, cpu, plain = append(ms, x.ms), append(cpu, x.cpu), append(plain, x.plain)
			longest, saves, written = append(longest, x.longest), append(saves, x.saves), append(written, x.bytes/1e6)
			increments = append(increments, x.increments)
			if x.rows > 0 {
				extra = append(extra, x.bytes/(x.rows*x.rowSize))
			}
		}
		first := len(r.Figures)
		ratio := r.addRatio("time, of that without checkpoints", ms, plain)
		ofRows := "-"
		if len(extra) > 0 {
			ofRows = fmt.Sprintf("%.3f", r.addAs(Counted, "bytes of increments, of their rows'", ratioUnit, extra...).Median)
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.3f\t%s\t%.2f\t%.2f\t%.0f\t%.0f\t%.1f\t%s\t\n", name, r.addFigure("step", "ms", ms...).Median,
			r.addFigure("step without checkpoints", "ms", plain...).Median, ratio.Median, ratio.betweenText(3),
			r.addFigure("CPU", "ms/step", cpu...).Median, r.addFigure("longest step of the median", ratioUnit, longest...).Median,
			r.addAs(Counted, "saves", "saves", saves...).Median, r.addAs(Counted, "increments", "saves", increments...).Median,
			r.addAs(Counted, "bytes of increments", "MB", written...).Median, ofRows)
		r.setCase(first, map[string]string{"system": name, "every": b.o.text("every"), "ranks": strconv.Itoa(b.job.ranks)})
	}
	return t.Flush()
}
