package bench

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/train"
)

var savesBench = Bench{
	Name: "saves",
	Doc:  "cost of a save beside training, and of one for which training waits",
	Detail: "Every row is touched. Steps without a save, a save beside training, steps without one, and a save that training waits for " +
		"take turns in one run. A step lasts from the end of the step before: work between them counts.",
	Settings: []Setting{
		choice("model", "dim48", []string{"dim48", "dim16", "dim16-bare", "dim48-bare"}, "model to train"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("ranks", "2", 1, 1024, "number of ranks"),
		threadsSetting,
		number("steps", "60", 1, maxSteps, "steps without a save in a turn").orTiny("4"),
		modeSetting,
		dirSetting,
	},
	measure: runSaves,
}

// savesRun is one run of the benchmark. Rank 0 records the times.
type savesRun struct {
	o      Options
	last   time.Time // the end of the last step
	plain  [][]float64
	beside [][]float64 // ms of the steps during each save
	cpu    []float64   // ms of CPU time of a step, of each turn of steps
	paused []float64   // seconds
	aside  int64       // the most bytes of rank 0's rows that were aside
	turns  *measure.Turns
}

func runSaves(out io.Writer, o Options) (*Report, error) {
	b, s := &savesRun{o: o, turns: measure.NewTurns(o.repeats(), o.endsTurns)}, o.models(o.text("model"))[0]
	dir, err := o.tempDir()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	j := job{batch: o.number("batch"), ranks: o.number("ranks"), threads: o.number("threads")}
	cfg, err := s.config(j, "cache.mode="+o.text("mode"), "checkpoint.dir="+dir, "checkpoint.keep=1")
	if err != nil {
		return nil, err
	}
	const most = 1 << 20 // steps
	rows := 0            // a small model is saved while training waits, unless their number is fixed
	if o.Tiny {
		rows = 64
	}
	info, err := train.Try(env.Real(), cfg, train.Options{Observer: silent{}, SaveRows: rows, Stop: neverStop,
		Progress: func(data.Progress) error { return nil }}, most, func(t *train.Trial) (err error) {
		pass, err := startWritten(t, cfg.Cache.Mode, most)
		if err != nil {
			return err
		}
		defer func() { pass.Close(err) }()
		return b.takeTurns(t, pass)
	})
	if err != nil {
		return nil, err
	}
	r := o.newReport(info.Device)
	r.writeHeader(out)
	bytes := float64(info.Rows) * float64(info.BytesPerRow)
	fmt.Fprintf(out, "%s, batch %d, %d ranks, %d threads, cache.mode %s: %.3f GB of rows\n", s.name, j.batch, j.ranks, info.Threads,
		cfg.Cache.Mode, bytes/1e9)
	b.report(out, r, bytes/float64(j.ranks))
	return r, nil
}

// takeTurns is the work of a rank.
func (b *savesRun) takeTurns(t *train.Trial, pass *train.Pass) error {
	for range 3 { // to warm up
		if err := pass.Train(); err != nil {
			return err
		}
	}
	for turn := range b.o.repeats() {
		if b.turns.IsEnded(turn) {
			return measure.ErrEnded
		}
		if err := b.trainPlain(t, pass); err != nil {
			return err
		}
		if err := t.BeginSave(); err != nil {
			return err
		}
		var during []float64
		began := cpuTime()
		for aside, saving := t.Saving(); saving; aside, saving = t.Saving() {
			if err := pass.Train(); err != nil {
				return err
			}
			if t.Rank() == 0 {
				during, b.aside = append(during, b.lap()), max(b.aside, aside)
			}
		}
		b.addCPU(t, began, len(during))
		if err := b.trainPlain(t, pass); err != nil {
			return err
		}
		paused := time.Now()
		if err := t.SettleAndSave(); err != nil {
			return err
		}
		if t.Rank() == 0 {
			b.beside, b.paused = append(b.beside, during), append(b.paused, time.Since(paused).Seconds())
		}
	}
	return nil
}

// trainPlain trains steps without a save.
func (b *savesRun) trainPlain(t *train.Trial, pass *train.Pass) error {
	if err := t.Barrier(); err != nil {
		return err
	}
	if t.Rank() == 0 {
		b.last = time.Now()
	}
	var ms []float64
	began := cpuTime()
	for range b.o.number("steps") {
		if err := pass.Train(); err != nil {
			return err
		}
		if t.Rank() == 0 {
			ms = append(ms, b.lap())
		}
	}
	if t.Rank() == 0 {
		b.plain = append(b.plain, ms)
	}
	b.addCPU(t, began, len(ms))
	return nil
}

// addCPU adds the CPU time of a turn of some steps, of all ranks.
func (b *savesRun) addCPU(t *train.Trial, began time.Duration, steps int) {
	if t.Rank() == 0 {
		b.cpu = append(b.cpu, 1e3*(cpuTime()-began).Seconds()/float64(steps))
	}
}

// lap is the time since the step before, in milliseconds.
func (b *savesRun) lap() float64 {
	now := time.Now()
	defer func() { b.last = now }()
	return 1e3 * now.Sub(b.last).Seconds()
}

// report compares each save beside training with the steps before and after it.
func (b *savesRun) report(out io.Writer, r *Report, bytesOfRank float64) {
	var step, longestPlain, mean, saving, cpu, cpuSaving, longest, steps, seconds, lost, waited []float64
	for i, during := range b.beside {
		around := slices.Concat(b.plain[2*i], b.plain[2*i+1])
		slices.Sort(around)
		median := around[len(around)/2]
		step = append(step, median)
		longestPlain = append(longestPlain, around[len(around)-1]/median)
		mean, saving = append(mean, meanOf(around)), append(saving, meanOf(during))
		cpu, cpuSaving = append(cpu, (b.cpu[3*i]+b.cpu[3*i+2])/2), append(cpuSaving, b.cpu[3*i+1])
		longest = append(longest, slices.Max(during)/median)
		steps = append(steps, float64(len(during)))
		seconds = append(seconds, float64(len(during))*meanOf(during)/1e3)
		lost = append(lost, float64(len(during))*(meanOf(during)-mean[i])/1e3)
		waited = append(waited, 1e3*b.paused[i]/median)
	}
	t := table(out)
	fmt.Fprintln(t, "\tmedian\tleast\tgreatest\t\tinterval\t")
	for _, f := range []Figure{
		r.addFigure("step without a save", "ms", step...), r.addFigure("longest of them / median", ratioUnit, longestPlain...),
		r.addFigure("save beside training", "s", seconds...), r.addAs(Counted, "its steps", "steps", steps...),
		r.addRatio("step beside a save / step without", saving, mean), r.addRatio("the same in CPU time", cpuSaving, cpu),
		r.addFigure("time that training lost", "s", lost...), r.addFigure("its longest step / median", ratioUnit, longest...),
		r.addAs(Counted, "rows put aside, of rank 0's", "%", 100*float64(b.aside)/bytesOfRank),
		r.addFigure("save that training waits for", "s", b.paused...), r.addFigure("the same / step", ratioUnit, waited...),
	} {
		f.writeLine(t, 3)
	}
	t.Flush()
}

func meanOf(values []float64) (mean float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	return mean
}
