package bench

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/train"
)

var recoveryBench = Bench{
	Name: "recovery",
	Doc:  "recovery times and throughput of jobs whose processes are killed",
	Detail: "Starts jobs of real processes and kills their ranks in turn. A worker is killed once the job has been fully redundant " +
		"for 50 steps, at its step or later; a node at its step. The digest must be that of a run without a loss.",
	Settings: []Setting{
		choice("model", "dim16", []string{"dim16", "dim48"}, "model to train"),
		choice("code", "", ec.Names(1), "erasure code. Default: xor for r = 1, else rs"),
		number("k", "4", 1, mostColumns, "data rows in a stripe").orTiny("2"),
		number("r", "1", 1, mostParity, "parity rows in a stripe"),
		number("every", "10", 1, 1<<20, "steps between commits").orTiny("3"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks. Default with clock=virtual: 2048 for each rank").orTiny("64"),
		numbers("ranks", "", 2, 1024, "number of ranks, one per process, at most 64; several need clock=virtual. Default: k + r"),
		choice("clock", realClock, []string{realClock, virtualClock}, "virtual: one loss, of a rank in the middle of an epoch; links and a stand-in "+
			"for the layers take their time, the CPU none. Detection and the start of processes are not in it"),
		text("link", "", "BANDWIDTH,LATENCY such as 10Gb/s,50us", "simulated links, with clock=virtual. Default: 10Gb/s,50us"),
		text("compute", "", "a duration up to 1m, such as 30ms", "time of the stand-in, with clock=virtual. Default: 30ms"),
		number("kills", "5", 1, 1000, "losses in a run").orTiny("1"),
		number("first", "100", 1, maxSteps, "step of the first loss").orTiny("60"),
		number("gap", "200", 1, maxSteps, "steps between two losses").orTiny("20"),
		modeSetting,
		text("rate", "auto", "a rate", "ec.rebuild_rate"),
		choice("lose", "worker", []string{"worker", "node"}, "what is lost; node: also the supervisor, which a spare replaces"),
		text("digest", "", "a digest in hex", "digest of a run without a loss. Default: measured in such a run"),
		text("csv", "", "a file", "also write the time of each step. Default: no file"),
		text("png", "", "a file", "also draw the throughput of the first run. Default: no file"),
		text("svg", "", "a file", "the same as SVG. Default: no file"),
	},
	Bars: []Bar{
		{[]string{"lose=worker"}, "training again within 0.15 s (median) and 0.25 s (95 %) after the loss of a worker", oneWay(
			atMost("resume_ms", Median, 150), atMost("resume_ms p95", Itself, 250))},
		{[]string{"lose=node"}, "training again within 0.3 s (median) and 0.5 s (95 %) after the loss of a node", oneWay(
			atMost("resume_ms", Median, 300), atMost("resume_ms p95", Itself, 500))},
	},
	measure: runRecovery,
}

// recoveryRun is one run of the benchmark.
type recoveryRun struct {
	out   io.Writer
	o     Options
	shape shape
	overheadCase
	batch, ranks, kills, first, gap int
	nodes                           bool   // are lost, not only workers
	rate                            string // ec.rebuild_rate
}

// recoveryTime is the time of a phase, counted from the loss.
type recoveryTime struct {
	name string
	of   func(*train.Recovery) float64 // milliseconds
}

var recoveryTimes = []recoveryTime{
	{"detect_ms", func(r *train.Recovery) float64 { return r.DetectMS }},
	{"start_ms", func(r *train.Recovery) float64 { return r.StartMS }},
	{"join_ms", func(r *train.Recovery) float64 { return r.JoinMS }},
	{"agree_ms", func(r *train.Recovery) float64 { return r.AgreeMS }},
	{"rollback_ms", func(r *train.Recovery) float64 { return r.RollbackMS }},
	{"dense_ms", func(r *train.Recovery) float64 { return r.DenseMS }},
	{"survey_ms", func(r *train.Recovery) float64 { return r.SurveyMS }},
	{"ready_ms", func(r *train.Recovery) float64 { return r.ReadyMS }},
	{"resume_ms", func(r *train.Recovery) float64 { return r.ResumeMS }},
	{"regain_ms", func(r *train.Recovery) float64 { return r.RegainMS }},
	{"whole_ms", func(r *train.Recovery) float64 { return r.WholeMS }},
}

func runRecovery(out io.Writer, o Options) (*Report, error) {
	switch n := o.numbers("ranks"); {
	case o.text("clock") == virtualClock:
		return runVirtualRecovery(out, o)
	case o.isSet("link") || o.isSet("compute"):
		return nil, settingError("link=%s compute=%s: need clock=virtual", o.text("link"), o.text("compute"))
	case len(n) > 1 || len(n) == 1 && n[0] > 64:
		return nil, settingError("ranks=%s: more than 64, or several, need clock=virtual", o.text("ranks"))
	}
	b := newRecoveryRun(out, o)
	for _, key := range append([]string{"csv"}, pictureKeys...) {
		path := o.text(key)
		if path != "" {
			if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
				return nil, settingError("%s=%s: its folder does not exist", key, path)
			}
		}
	}
	if err := o.checkPictures(); err != nil {
		return nil, err
	}
	program, err := o.programPath()
	if err != nil {
		return nil, err
	}
	undisturbed := jobRun{Digest: o.text("digest")}
	if undisturbed.Digest == "" {
		if undisturbed, err = b.runJob(program, nil); err != nil {
			return nil, err
		}
	}
	var runs []jobRun
	for o.moreTurns(len(runs), o.repeats()) {
		r, err := b.runJob(program, b.faultSpecs())
		if err != nil {
			return nil, err
		}
		if r.Digest != undisturbed.Digest || len(r.Recoveries) == 0 {
			return nil, fmt.Errorf("bench: digest %s after %d recoveries, %s without a loss", r.Digest, len(r.Recoveries), undisturbed.Digest)
		}
		runs = append(runs, r)
	}
	report := o.newReport("of the processes")
	report.writeHeader(out)
	b.addFigures(report, undisturbed, runs)
	if path := o.text("csv"); path != "" {
		if err := writeStepsCSV(path, runs); err != nil {
			return nil, err
		}
	}
	if err := b.plotFiles(report, runs[0]); err != nil {
		return nil, err
	}
	return report, nil
}

func newRecoveryRun(out io.Writer, o Options) *recoveryRun {
	r := o.number("r")
	b := &recoveryRun{out: out, o: o, shape: o.models("dim16")[0], nodes: o.text("lose") == "node",
		overheadCase: overheadCase{o.codeFor(r), o.number("k"), r, o.number("every")}, batch: o.number("batch"),
		kills: o.number("kills"), first: o.number("first"), gap: o.number("gap"), rate: o.text("rate")}
	b.ranks = b.k + b.r
	if n := o.numbers("ranks"); n != nil {
		b.ranks = n[0]
	}
	return b
}

func (b *recoveryRun) String() string {
	s := fmt.Sprintf("%s batch %d ranks %d %v", b.shape.name, b.batch, b.ranks, b.overheadCase)
	if b.nodes {
		s += ", nodes lost"
	}
	return s
}

// faultSpecs returns the specs that kill each rank in turn.
func (b *recoveryRun) faultSpecs() (specs []string) {
	for i := range b.kills {
		if b.nodes {
			specs = append(specs, fmt.Sprintf("node:%d@%d", (i+1)%b.ranks, b.first+i*b.gap))
			continue
		}
		specs = append(specs, fmt.Sprintf("kill:%d@%d:%s", (i+1)%b.ranks, b.first+i*b.gap, probe.Steady))
	}
	return specs
}

// stepCount returns the number of steps of a run: gap steps follow every kill, fewer if it had to wait.
func (b *recoveryRun) stepCount() int { return b.first + b.kills*b.gap }

// addFigures adds the figures to a report.
func (b *recoveryRun) addFigures(r *Report, undisturbed jobRun, runs []jobRun) {
	name := b.String()
	var losses []*train.Recovery
	var costs lossCosts
	var per100MB, lost, share []float64
	copied := copyRate(b.o.Tiny)
	for i := range runs {
		for k := range runs[i].Recoveries {
			x := &runs[i].Recoveries[k]
			losses = append(losses, x)
			costs.addLoss(&runs[i], x)
			mb := float64(x.RowsDecoded) * float64(b.rowBytes()) / 1e6
			lost = append(lost, mb)
			if seconds := (x.WholeMS - x.ResumeMS) / 1e3; seconds > 0 && mb > 0 {
				per100MB = append(per100MB, 100*seconds/mb)
				share = append(share, 100*b.movedGB(x)/seconds/copied)
			}
		}
	}
	fmt.Fprintf(b.out, "\n%s: %d losses (of %d) in %d runs of %d processes; digest as without a loss: %s\n", name,
		len(losses), b.kills*len(runs), len(runs), b.ranks, undisturbed.Digest)
	t := table(b.out)
	fmt.Fprintln(t, "\tp50\tp95\tleast\tgreatest\t\t")
	evidence := Measured
	line := func(what, unit string, values []float64) {
		if len(values) == 0 {
			return
		}
		r.evidence = evidence
		f := r.addFigure(name+": "+what, unit, values...)
		high := r.addQuantile(name+": "+what+" p95", unit, 0.95, values)
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%s\t\n", what, f.Median, high.Median, f.Min, f.Max, unit)
	}
	of := func(value func(*train.Recovery) float64) (values []float64) {
		for _, x := range losses {
			values = append(values, value(x))
		}
		return values
	}
	for _, p := range recoveryTimes {
		line(p.name, "ms", of(p.of))
	}
	evidence = Counted
	line("steps redone", "steps", of(func(x *train.Recovery) float64 { return float64(x.StepsRedone) }))
	line("rows decoded on demand", "rows", of(func(x *train.Recovery) float64 { return float64(x.RowsOnDemand) }))
	line("rows decoded and parities encoded in the background", "rows",
		of(func(x *train.Recovery) float64 { return float64(x.RowsDecoded - x.RowsOnDemand) }))
	line("read for them", "MB", of(func(x *train.Recovery) float64 { return float64(x.BytesRead) / 1e6 }))
	line("rows and parities lost", "MB", lost)
	evidence = Measured
	line("from resume to rebuilt, for 100 MB", "s", per100MB)
	costs.addLines(line)
	evidence = Modelled
	line("memory traffic meanwhile, of a core's copy rate", "%", share)
	evidence, r.evidence = Measured, Measured
	r.addFigure(name+": copied by a core, read and written", "GB/s", copied)
	fmt.Fprintf(t, "copied by a core, read and written\t%.1f\t\t\t\tGB/s\t\n", copied)
	if len(undisturbed.steps) > 0 {
		line("throughput of a run without a loss", "samples/s", []float64{undisturbed.throughput(min(calmSteps, len(undisturbed.steps)/2), len(undisturbed.steps))})
	}
	t.Flush()
}

// lossCosts are the throughputs and the costs of losses.
type lossCosts struct{ normal, while, net, seconds []float64 }

func (c *lossCosts) addLoss(r *jobRun, x *train.Recovery) {
	normal, after := r.throughputAround(x)
	if normal == 0 {
		return
	}
	c.normal = append(c.normal, normal)
	if after > 0 {
		c.while = append(c.while, 100*after/normal)
	}
	if seconds, share := r.costOf(x, normal); seconds != 0 {
		c.net, c.seconds = append(c.net, share), append(c.seconds, seconds)
	}
}

func (c *lossCosts) addLines(line func(what, unit string, values []float64)) {
	line("throughput before a loss and after the rebuild", "samples/s", c.normal)
	line("from resume to rebuilt, of that", "%", c.while)
	line("from the loss to rebuilt, with the pause, without steps redone", "%", c.net)
	line("training lost until rebuilt", "s", c.seconds)
}

// rowBytes returns the size of a row with adagrad's state.
func (b *recoveryRun) rowBytes() int { return 8 * b.shape.dim }

// movedGB estimates the memory traffic of a rebuild: each row of another member is read, copied to
// a send buffer, and received; the lost row is decoded from them; and the decoded row is written,
// whose cache line is read first.
func (b *recoveryRun) movedGB(x *train.Recovery) float64 {
	read, lost := float64(x.BytesRead), float64(x.RowsDecoded)*float64(b.rowBytes())
	return (5*read + 4*lost) / 1e9
}

// copyRate returns the memory traffic of a core that copies, read and written, in GB/s.
func copyRate(tiny bool) float64 {
	size := 256 << 20
	if tiny {
		size = 1 << 20
	}
	from, to := bytes.Repeat([]byte{1}, size), make([]byte, size)
	copy(to, from) // touches the memory
	best := time.Duration(math.MaxInt64)
	for range 5 {
		began := time.Now()
		copy(to, from)
		best = min(best, time.Since(began))
	}
	return 2 * float64(size) / float64(max(1, best)) // bytes a ns
}
