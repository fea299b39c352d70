package bench

import (
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/train"
)

var overheadBench = Bench{
	Name: "overhead",
	Doc: "what protecting rows by an erasure code costs training, paired with steps of the same run without one, and full checkpoints every T " +
		"(settings: device=cpu|cuda, model=dim16|dim48|dim16-bare|dim48-bare|mlperf, blas=KIND as kernels.blas, code=xor|rs, k=N,N, r=N,N, every=N,N, batch=N, ranks=N, threads=N, steps=N, mode=CACHE.MODE, " +
		"checkpoints=yes|no, dir=FOLDER of theirs)",
	Run: runOverhead,
}

// overheadShapes are the Kaggle DLRMs and, as the worst case, what is left of them
// without MLPs: one layer to the interaction and one from it.
var overheadShapes = []shape{
	shapes[1], shapes[0],
	{"dim16-bare", 16, []int{16}, []int{1}, `"criteo-kaggle"`},
	{"dim48-bare", 48, []int{48}, []int{1}, `"criteo-kaggle"`},
}

// overheadCase is a code to measure, with the steps between its commits.
type overheadCase struct {
	code        string
	k, r, every int
}

func (c overheadCase) String() string {
	return fmt.Sprintf("%s k %d r %d every %d", c.code, c.k, c.r, c.every)
}

// checkpointEvery are the times between checkpoints of the comparison.
var checkpointEvery = []time.Duration{time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}

func runOverhead(out io.Writer, o Options) (*Report, error) {
	if err := o.checkArgs("device", "model", "blas", "code", "k", "r", "every", "batch", "ranks", "threads", "steps", "mode", "checkpoints", "dir"); err != nil {
		return nil, err
	}
	if _, err := o.device(); err != nil {
		return nil, err
	}
	batch, models := 2048, overheadShapes
	if o.option("model", "") == mlperf.name {
		models = []shape{mlperf}
	}
	if o.Tiny {
		batch, models = 64, []shape{tinyShape}
	}
	batch, err := o.number("batch", batch, 1, maxSamples)
	if err != nil {
		return nil, err
	}
	cases, err := overheadCases(o)
	if err != nil {
		return nil, err
	}
	save := o.option("checkpoints", "yes")
	if save != "yes" && save != "no" {
		return nil, settingError("checkpoints=%s: want yes or no", save)
	}
	b := &overheadRun{out: out, o: o, batch: batch}
	for _, b.shape = range models {
		if o.option("model", b.shape.name) != b.shape.name {
			continue
		}
		for i, c := range cases {
			if err := b.measure(c, save == "yes" && i == 0); err != nil {
				return nil, err
			}
		}
	}
	if b.report == nil {
		return nil, settingError("no model %q", o.option("model", ""))
	}
	return b.report, nil
}

func overheadCases(o Options) (cases []overheadCase, err error) {
	ks, rs, everies := []int{4}, []int{1}, []int{1, 10, 50}
	if o.Tiny {
		ks, rs, everies = []int{2}, []int{1, 2}, []int{2}
	}
	for _, s := range []struct {
		key  string
		list *[]int
		most int
	}{{"k", &ks, mostColumns}, {"r", &rs, mostParity}, {"every", &everies, 1 << 20}} {
		if *s.list, err = o.numbers(s.key, *s.list, 1, s.most); err != nil {
			return nil, err
		}
	}
	for _, k := range ks {
		for _, r := range rs {
			code := ec.XOR
			if r > 1 {
				code = ec.RS
			}
			for _, every := range everies {
				cases = append(cases, overheadCase{o.option("code", code), k, r, every})
			}
		}
	}
	return cases, nil
}

// overheadRun is one run of the benchmark.
type overheadRun struct {
	out    io.Writer
	o      Options
	batch  int
	shape  shape
	report *Report
}

// ranks is 5 where a code can divide so many, else a whole group of it.
func (b *overheadRun) ranks(c overheadCase) (int, error) {
	n := 5
	if _, err := ec.NewLayout(n, c.k, c.r); err != nil {
		n = c.k + c.r
	}
	return b.o.number("ranks", n, 1, 1024)
}

// measure measures a case: blocks of whole epochs, without and with the code by turns,
// so that each ratio is of neighbours.
func (b *overheadRun) measure(c overheadCase, save bool) error {
	ranks, err := b.ranks(c)
	if err != nil {
		return err
	}
	steps := (max(20, c.every) + c.every - 1) / c.every * c.every
	if b.o.Tiny {
		steps = 2 * c.every
	}
	if steps, err = b.o.number("steps", steps, 1, math.MaxInt32); err != nil {
		return err
	}
	if steps%c.every != 0 {
		return settingError("steps=%d is not a multiple of every=%d: a block has whole epochs", steps, c.every)
	}
	cfg, dir, err := b.config(c, ranks)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var cpu [2][]float64
	began, block := time.Duration(0), 0
	samples, info, err := train.Measure(env.Real(), cfg, train.MeasureOptions{
		Warmup: max(2, c.every), Steps: steps, Repeats: 1 + b.o.repeats(), Checkpoints: save,
		Modes: []string{train.UnprotectedMode, cfg.Cache.Mode},
		Block: func(begins bool) {
			if begins {
				began = cpuTime()
				return
			}
			cpu[block%2] = append(cpu[block%2], (cpuTime() - began).Seconds())
			block++
		},
		Options: train.Options{Observer: silent{}, Stop: func() bool { return false }, Progress: func(data.Progress) error { return nil }},
	})
	if err != nil {
		return err
	}
	if b.report == nil {
		b.report = newReport("overhead", info.Device)
		b.report.header(b.out)
	}
	for i := range samples { // memory of pre-images and deltas was taken in the first pair
		samples[i], cpu[i] = samples[i][1:], cpu[i][1:]
	}
	f := overheadFigures{b.report, fmt.Sprintf("%s batch %d ranks %d %v", b.shape.name, b.batch, ranks, c)}
	fmt.Fprintf(b.out, "\n%s: %d threads, blocks of %d steps, cache.mode %s\n", f.name, info.Threads, steps, cfg.Cache.Mode)
	over := f.times(b.out, samples[0], samples[1], cpu)
	f.shares(b.out, samples[1])
	f.memory(b.out, samples[1], float64(info.Rows)*float64(info.BytesPerRow))
	if save {
		f.checkpoints(b.out, samples[0], over)
	}
	return nil
}

// config of a case, and the folder of its checkpoints.
func (b *overheadRun) config(c overheadCase, ranks int) (*config.Config, string, error) {
	dir, err := os.MkdirTemp(b.o.option("dir", ""), "ecrec-bench-*")
	if err != nil {
		return nil, "", settingError("dir=%s: %v", b.o.option("dir", ""), err)
	}
	cfg, err := b.shape.config(b.o, b.batch, fmt.Sprintf("job.ranks=%d", ranks), "optimizer.dense.kind=adagrad", "optimizer.sparse.kind=adagrad",
		"ec.code="+c.code, fmt.Sprintf("ec.k=%d", c.k), fmt.Sprintf("ec.r=%d", c.r), fmt.Sprintf("ec.commit_every=%d", c.every),
		"cache.mode="+b.o.option("mode", "auto"), "checkpoint.dir="+dir)
	if err != nil {
		os.RemoveAll(dir)
	}
	return cfg, dir, err
}

// cpuTime is what this process has computed in all.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// overheadFigures adds the figures of a case to a report.
type overheadFigures struct {
	report *Report
	name   string
}

func (f overheadFigures) add(what, unit string, values []float64) Figure {
	return f.report.add(f.name+": "+what, unit, values...)
}

// times compares blocks pair by pair. It returns by how much of a step protection makes
// it longer.
func (f overheadFigures) times(out io.Writer, without, with []train.Sample, cpu [2][]float64) (over float64) {
	var ms [2][]float64
	var wall, computed []float64
	for i := range with {
		ms[0], ms[1] = append(ms[0], 1e3*without[i].Step.Seconds()), append(ms[1], 1e3*with[i].Step.Seconds())
		wall = append(wall, 100*(ms[1][i]/ms[0][i]-1))
		computed = append(computed, 100*(cpu[1][i]/cpu[0][i]-1))
	}
	t := table(out)
	fmt.Fprintln(t, "\tmedian\tleast\tgreatest\t\t")
	for i, line := range []Figure{
		f.add("step without", "ms", ms[0]), f.add("step", "ms", ms[1]),
		f.add("overhead", "%", wall), f.add("overhead in CPU time", "%", computed),
	} {
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%s\t\n", []string{"step without the code", "step", "overhead", "of CPU time"}[i], line.Median, line.Min, line.Max, line.Unit)
		if i == 2 {
			over = line.Median / 100
		}
	}
	t.Flush()
	return over
}

// shares says where the time goes on rank 0, by its clock: the wait for a core that
// others have is in it.
func (f overheadFigures) shares(out io.Writer, with []train.Sample) {
	parts := []struct {
		name string
		of   func(train.Cost) time.Duration
	}{
		{"pre-images", func(c train.Cost) time.Duration { return c.PreImages }},
		{"dense snapshots", func(c train.Cost) time.Duration { return c.Snapshots }},
		{"wait for the commit before", func(c train.Cost) time.Duration { return c.Waited }},
		{"seal", func(c train.Cost) time.Duration { return c.Sealed }},
		{"fold into parities", func(c train.Cost) time.Duration { return c.Folded }},
		{"delta traffic, in the background", func(c train.Cost) time.Duration { return c.Moved }},
	}
	t := table(out)
	fmt.Fprintln(t, "rank 0\tms per step\tleast\tgreatest\tof step\t")
	for _, p := range parts {
		var ms, share []float64
		for _, s := range with {
			ms = append(ms, 1e3*p.of(s.Cost).Seconds())
			share = append(share, 100*p.of(s.Cost).Seconds()/s.Step.Seconds())
		}
		m, sh := f.add(p.name, "ms", ms), f.add(p.name+", of step", "%", share)
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.3f\t%.2f %%\t\n", p.name, m.Median, m.Min, m.Max, sh.Median)
	}
	t.Flush()
	var sent []float64
	for _, s := range with {
		sent = append(sent, float64(s.Cost.SentBytes))
	}
	fmt.Fprintf(out, "deltas sent by rank 0: %.0f bytes per step\n", f.add("deltas sent by rank 0", "B/step", sent).Median)
}

// memory is that of all ranks, beside that of the rows with their state.
func (f overheadFigures) memory(out io.Writer, with []train.Sample, rows float64) {
	last := with[len(with)-1].Protection
	t := table(out)
	fmt.Fprintln(t, "all ranks\tmemory\tof rows\t")
	fmt.Fprintf(t, "rows and state\t%s\t\t\n", machine.Size(int64(f.add("rows and state", "B", []float64{rows}).Median)))
	for _, m := range []struct {
		name  string
		bytes int64
	}{{"parities", last.ParityBytes}, {"pre-images", last.JournalBytes}, {"deltas, sent and staged", last.StagedBytes}, {"dense snapshots", last.SnapshotBytes}} {
		f.add(m.name, "B", []float64{float64(m.bytes)})
		fmt.Fprintf(t, "%s\t%s\t%.2f %%\t\n", m.name, machine.Size(m.bytes), 100*float64(m.bytes)/rows)
	}
	t.Flush()
}

// checkpoints compares with stopping for a full checkpoint after every time T of
// training: the save's share of it.
func (f overheadFigures) checkpoints(out io.Writer, saved []train.Sample, over float64) {
	var seconds []float64
	for _, s := range saved {
		seconds = append(seconds, s.Checkpoint.Seconds())
	}
	save := f.add("full checkpoint", "s", seconds)
	fmt.Fprintf(out, "full checkpoint: %.2f s (%.2f-%.2f); overhead of one every", save.Median, save.Min, save.Max)
	for _, every := range checkpointEvery {
		share := f.add(fmt.Sprintf("overhead of a checkpoint every %v", every), "%", scale(seconds, 100/every.Seconds()))
		fmt.Fprintf(out, " %v: %.2f %%;", every, share.Median)
	}
	fmt.Fprintln(out)
	if over > 0 {
		even := f.add("checkpoints cost the same every", "s", scale(seconds, 1/over))
		fmt.Fprintf(out, "the code costs as much as a checkpoint every %.0f s\n", even.Median)
	}
}
