package bench

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/bench/measure"
	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/train"
)

var overheadBench = Bench{
	Name: "overhead",
	Doc:  "cost of erasure coding in a training step, and of checkpoints for comparison",
	Detail: "Blocks of steps with and without the code take turns in one run. A block is a whole number of epochs. " +
		"Every combination of k, r and every is measured. After each block with the code, a bare loop over the same rows measures " +
		"the memory traffic that protection needs at least: the floor.",
	Settings: []Setting{
		deviceSetting,
		choice("model", "", []string{"dim16", "dim48", "dim16-bare", "dim48-bare", "mlperf"}, "model to train. Default: all except mlperf"),
		blasSetting,
		choice("code", "", ec.Names(1), "erasure code. Default: xor for r = 1, else rs"),
		numbers("k", "4", 1, mostColumns, "data rows in a stripe").orTiny("2"),
		numbers("r", "1", 1, mostParity, "parity rows in a stripe").orTiny("1,2"),
		numbers("every", "1,10,50", 1, 1<<20, "steps between commits").orTiny("2"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks. Default with another clock than real: 2048 for each rank").orTiny("64"),
		numbers("ranks", "", 1, 1024, "number of ranks; several need another clock. Default: 5 if the code allows, else k + r"),
		choice("clock", realClock, []string{realClock, virtualClock, bothClocks}, "clock of the steps. virtual: links and a stand-in for the layers "+
			"take their time, the CPU none, and rows have sizes but no values. both: the ratio to the same job on this machine's clock"),
		text("link", "", "BANDWIDTH,LATENCY such as 10Gb/s,50us", "simulated links, with another clock than real. Default: 10Gb/s,50us"),
		text("compute", "", "a duration up to 1m, such as 30ms", "time of the stand-in, with another clock than real. Default: 30ms"),
		threadsSetting,
		number("steps", "", 1, maxSteps, "steps in a block, a multiple of every. Default: at least 20"),
		modeSetting,
		choice("checkpoints", "yes", []string{"yes", "no"}, "also measure full checkpoints"),
		dirSetting,
	},
	Bars:    overheadBars(),
	measure: runOverhead,
}

// The ratios of neighbouring blocks.
const (
	overheadWall = "with / without the code"
	overheadCPU  = "with / without the code, CPU time"
)

// overheadBars are for 5 ranks, k = 4 and r = 1, and a commit every 10 steps.
func overheadBars() (bars []Bar) {
	add := func(model, batch, text string, bound float64) {
		settings := []string{"model=" + model, "k=4", "r=1", "every=10"}
		if batch != "" {
			settings = append(settings, "batch="+batch)
		}
		bars = append(bars, Bar{settings, text, oneWay(atMost(overheadWall, Upper, bound))})
	}
	for _, model := range []string{"dim16", "dim48"} {
		add(model, "16384", "protection costs at most 1 % of a step at batch 16,384", 1.01)
		add(model, "2048", "protection costs at most 2 % of a step at batch 2,048, commit_every 10", 1.02)
	}
	add("dim16-bare", "", "protection costs at most 10 % of a step without MLPs", 1.10)
	return bars
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
	switch {
	case o.text("clock") != realClock:
		return runOverheadClocks(out, o)
	case o.isSet("link") || o.isSet("compute"):
		return nil, settingError("link=%s compute=%s: need clock=virtual or clock=both", o.text("link"), o.text("compute"))
	case len(o.numbers("ranks")) > 1:
		return nil, settingError("ranks=%s: several need clock=virtual or clock=both", o.text("ranks"))
	}
	b := &overheadRun{out: out, o: o, batch: o.number("batch")}
	models, cases := o.models("dim16", "dim48", "dim16-bare", "dim48-bare"), overheadCases(o)
	for n := range models {
		b.shape = models[n]
		for i, c := range cases {
			o.setDone(n*len(cases)+i, len(models)*len(cases), "cases")
			if err := b.measure(c, o.text("checkpoints") == "yes" && i == 0); err != nil {
				return nil, err
			}
		}
	}
	return b.report, nil
}

func overheadCases(o Options) (cases []overheadCase) {
	for _, k := range o.numbers("k") {
		for _, r := range o.numbers("r") {
			for _, every := range o.numbers("every") {
				cases = append(cases, overheadCase{o.codeFor(r), k, r, every})
			}
		}
	}
	return cases
}

// codeFor returns the setting code, or the code that suits r parity rows in a stripe.
func (o Options) codeFor(r int) string {
	switch {
	case o.isSet("code"):
		return o.text("code")
	case r > 1:
		return ec.RS
	}
	return ec.XOR
}

// overheadRun is one run of the benchmark.
type overheadRun struct {
	out    io.Writer
	o      Options
	batch  int
	shape  shape
	report *Report
}

// rankCount returns the setting ranks: by default 5 if the code can divide them, else one group.
func (b *overheadRun) rankCount(c overheadCase) int {
	if b.o.isSet("ranks") {
		return b.o.numbers("ranks")[0]
	}
	const usual = 5
	if _, err := ec.NewLayout(usual, c.k, c.r); err != nil {
		return c.k + c.r
	}
	return usual
}

// measure measures a case. Blocks without and with the code take turns, so that each ratio is of
// neighbouring blocks.
func (b *overheadRun) measure(c overheadCase, save bool) error {
	ranks := b.rankCount(c)
	steps, err := blockSteps(b.o, c)
	if err != nil {
		return err
	}
	cfg, dir, err := b.loadConfig(c, ranks)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var cpu [2][]float64
	began, block := time.Duration(0), 0
	floor, sinks := newFloor(c, steps), []commit.SinkFactory(nil)
	defer floor.free()
	if b.o.text("device") == "cpu" {
		sinks = append(sinks, floor.written.openSink)
	}
	var failed error
	samples, info, err := measure.Run(env.Real(), cfg, measure.Options{
		Warmup: max(2, c.every), Steps: steps, Repeats: 1 + b.o.repeats(), Checkpoints: save,
		Modes: []string{measure.Unprotected, cfg.Cache.Mode},
		Block: func(begins bool) {
			if begins {
				began = cpuTime()
				return
			}
			cpu[block%2] = append(cpu[block%2], (cpuTime() - began).Seconds())
			if block%2 == 1 {
				failed = cmp.Or(failed, floor.runBlock(steps))
			}
			block++
		},
		EndEarly: b.o.endsTurns,
		Options:  train.Options{Observer: silent{}, Stop: neverStop, Progress: func(data.Progress) error { return nil }, Sinks: sinks},
	})
	if err = cmp.Or(err, failed); err != nil {
		return err
	}
	if b.report == nil {
		b.report = b.o.newReport(info.Device)
		b.report.writeHeader(b.out)
	}
	for i := range samples { // memory of pre-images and deltas was taken in the first pair
		samples[i], cpu[i] = samples[i][1:], cpu[i][1:]
	}
	f := overheadFigures{b.report, fmt.Sprintf("%s batch %d ranks %d %v", b.shape.name, b.batch, ranks, c)}
	fmt.Fprintf(b.out, "\n%s: %d threads, blocks of %d steps, cache.mode %s\n", f.name, info.Threads, steps, cfg.Cache.Mode)
	first := len(b.report.Figures)
	over := f.compareTimes(b.out, samples[0], samples[1], cpu)
	f.reportFloor(b.out, floor, samples[0], cpu[0])
	f.reportShares(b.out, samples[1])
	f.reportMemory(b.out, samples[1], float64(info.Rows)*float64(info.BytesPerRow))
	if save {
		f.compareCheckpoints(b.out, samples[0], over)
	}
	b.report.setCase(first, map[string]string{"model": b.shape.name, "batch": strconv.Itoa(b.batch), "code": c.code, "k": strconv.Itoa(c.k),
		"r": strconv.Itoa(c.r), "every": strconv.Itoa(c.every)})
	return nil
}

// blockSteps is the number of steps of a block, a multiple of those between commits.
func blockSteps(o Options, c overheadCase) (int, error) {
	steps := (max(20, c.every) + c.every - 1) / c.every * c.every
	if o.Tiny {
		steps = 2 * c.every
	}
	if o.isSet("steps") {
		steps = o.number("steps")
	}
	if steps%c.every != 0 {
		return 0, settingError("steps=%d: want a multiple of every=%d", steps, c.every)
	}
	return steps, nil
}

// loadConfig of a case, and the folder of its checkpoints.
func (b *overheadRun) loadConfig(c overheadCase, ranks int) (*config.Config, string, error) {
	dir, err := b.o.tempDir()
	if err != nil {
		return nil, "", err
	}
	o := b.o
	j := job{batch: b.batch, ranks: ranks, threads: o.number("threads"), device: o.text("device"), blas: o.text("blas")}
	cfg, err := b.shape.config(j, "optimizer.dense.kind=adagrad", "optimizer.sparse.kind=adagrad",
		"ec.code="+c.code, fmt.Sprintf("ec.k=%d", c.k), fmt.Sprintf("ec.r=%d", c.r), fmt.Sprintf("ec.commit_every=%d", c.every),
		"cache.mode="+o.text("mode"), "checkpoint.dir="+dir)
	if err != nil {
		os.RemoveAll(dir)
	}
	return cfg, dir, err
}

// cpuTime returns the CPU time of this process, without its children's.
func cpuTime() time.Duration { return usedTime(unix.RUSAGE_SELF) }

// usedTime is the CPU time of this process, or of its children that have ended.
func usedTime(who int) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(who, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// overheadFigures adds the figures of a case to a report.
type overheadFigures struct {
	report *Report
	name   string
}

func (f overheadFigures) addFigure(what, unit string, values []float64) Figure {
	return f.report.addFigure(f.name+": "+what, unit, values...)
}

func (f overheadFigures) addAs(e Evidence, what, unit string, values ...float64) Figure {
	return f.report.addAs(e, f.name+": "+what, unit, values...)
}

// compareTimes compares blocks pair by pair. It returns the cost of protection as a share of a step.
func (f overheadFigures) compareTimes(out io.Writer, without, with []measure.Sample, cpu [2][]float64) (over float64) {
	var ms [2][]float64
	for i := range with {
		ms[0], ms[1] = append(ms[0], 1e3*without[i].Step.Seconds()), append(ms[1], 1e3*with[i].Step.Seconds())
	}
	t := table(out)
	fmt.Fprintln(t, "\tmedian\tleast\tgreatest\t\tinterval\t")
	step := []Figure{f.addFigure("step without", "ms", ms[0]), f.addFigure("step", "ms", ms[1])}
	for i, line := range step {
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%s\t\t\n", []string{"step without the code", "step"}[i], line.Median, line.Min, line.Max, line.Unit)
	}
	wall := f.report.addRatio(f.name+": "+overheadWall, ms[1], ms[0])
	computed := f.report.addRatio(f.name+": "+overheadCPU, cpu[1], cpu[0])
	for i, line := range []Figure{wall, computed} {
		fmt.Fprintf(t, "%s\t%.4f\t%.4f\t%.4f\t%s\t%s\t\n", []string{overheadWall, overheadCPU}[i], line.Median, line.Min, line.Max, line.Unit,
			line.betweenText(4))
	}
	t.Flush()
	return wall.Median - 1
}

// reportShares reports the parts of protection's time on rank 0, in wall-clock time: waits for a core
// used by other threads are included.
func (f overheadFigures) reportShares(out io.Writer, with []measure.Sample) {
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
		m, sh := f.addFigure(p.name, "ms", ms), f.addFigure(p.name+", of step", "%", share)
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.3f\t%.2f %%\t\n", p.name, m.Median, m.Min, m.Max, sh.Median)
	}
	t.Flush()
	var sent []float64
	for _, s := range with {
		sent = append(sent, float64(s.Cost.SentBytes))
	}
	fmt.Fprintf(out, "deltas sent by rank 0: %.0f bytes per step\n", f.addAs(Counted, "deltas sent by rank 0", "B/step", sent...).Median)
}

// reportMemory reports the memory of all ranks for protection, relative to that of the rows with their
// state.
func (f overheadFigures) reportMemory(out io.Writer, with []measure.Sample, rows float64) {
	last := with[len(with)-1].Protection
	t := table(out)
	fmt.Fprintln(t, "all ranks\tmemory\tof rows\t")
	fmt.Fprintf(t, "rows and state\t%s\t\t\n", machine.Size(int64(f.addAs(Counted, "rows and state", "B", rows).Median)))
	for _, m := range []struct {
		name  string
		bytes int64
	}{{"parities", last.ParityBytes}, {"pre-images", last.JournalBytes}, {"deltas, sent and staged", last.StagedBytes},
		{"dense snapshots", last.SnapshotBytes}} {
		f.addAs(Counted, m.name, "B", float64(m.bytes))
		fmt.Fprintf(t, "%s\t%s\t%.2f %%\t\n", m.name, machine.Size(m.bytes), 100*float64(m.bytes)/rows)
	}
	t.Flush()
}

// compareCheckpoints reports the cost of full checkpoints instead, one after every time T of training.
func (f overheadFigures) compareCheckpoints(out io.Writer, saved []measure.Sample, over float64) {
	var seconds []float64
	for _, s := range saved {
		seconds = append(seconds, s.Checkpoint.Seconds())
	}
	save := f.addFigure("full checkpoint", "s", seconds)
	fmt.Fprintf(out, "full checkpoint: %.2f s (%.2f-%.2f); overhead of one every", save.Median, save.Min, save.Max)
	for _, every := range checkpointEvery {
		share := f.addAs(Modelled, fmt.Sprintf("overhead of a checkpoint every %v", every), "%", scale(seconds, 100/every.Seconds())...)
		fmt.Fprintf(out, " %v: %.2f %%;", every, share.Median)
	}
	fmt.Fprintln(out)
	if over > 0 {
		even := f.addAs(Modelled, "checkpoints cost the same every", "s", scale(seconds, 1/over)...)
		fmt.Fprintf(out, "the code costs as much as a checkpoint every %.0f s\n", even.Median)
	}
}
