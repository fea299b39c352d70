package bench

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/train"
)

var recoveryBench = Bench{
	Name: "recovery",
	Doc: "runs of real processes whose ranks are killed by turns: the times of each phase, rows decoded, and throughput around the kills " +
		"(settings: model=dim16|dim48, code=xor|rs, k=N, r=N, every=N, batch=N, ranks=N, kills=N of a run, first=STEP, gap=STEPS between two, " +
		"mode=CACHE.MODE, lose=worker|node: with a node's supervisor too, whose place a spare takes, digest=HEX of the run without a loss, which is then not done, csv=FILE, png=FILE); a rank is killed when all has been whole for 50 steps, or later; a node at its step",
	Run: runRecovery,
}

// recoveryRun is one run of the benchmark.
type recoveryRun struct {
	out   io.Writer
	o     Options
	shape shape
	overheadCase
	batch, ranks, kills, first, gap int
	nodes                           bool // are lost, not only workers
}

// recoveryTime is the time of a phase, counted from the loss.
type recoveryTime struct {
	name string
	of   func(*train.Recovery) float64 // milliseconds
}

var recoveryTimes = []recoveryTime{
	{"join_ms", func(r *train.Recovery) float64 { return r.JoinMS }},
	{"agree_ms", func(r *train.Recovery) float64 { return r.AgreeMS }},
	{"rollback_ms", func(r *train.Recovery) float64 { return r.RollbackMS }},
	{"dense_ms", func(r *train.Recovery) float64 { return r.DenseMS }},
	{"survey_ms", func(r *train.Recovery) float64 { return r.SurveyMS }},
	{"resume_ms", func(r *train.Recovery) float64 { return r.ResumeMS }},
	{"regain_ms", func(r *train.Recovery) float64 { return r.RegainMS }},
	{"whole_ms", func(r *train.Recovery) float64 { return r.WholeMS }},
}

func runRecovery(out io.Writer, o Options) (*Report, error) {
	b, err := newRecoveryRun(out, o)
	if err != nil {
		return nil, err
	}
	var plots []string
	for _, key := range []string{"csv", "png"} {
		path := o.option(key, "")
		if path != "" {
			if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
				return nil, settingError("%s=%s: there is no such folder", key, path)
			}
		}
		plots = append(plots, path)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	undisturbed := jobRun{Digest: o.option("digest", "")}
	if undisturbed.Digest == "" {
		if undisturbed, err = b.run(program, nil); err != nil {
			return nil, err
		}
	}
	var runs []jobRun
	for range o.repeats() {
		r, err := b.run(program, b.faults())
		if err != nil {
			return nil, err
		}
		if r.Digest != undisturbed.Digest || len(r.Recoveries) == 0 {
			return nil, fmt.Errorf("bench: digest %s after %d recoveries, %s without a loss", r.Digest, len(r.Recoveries), undisturbed.Digest)
		}
		runs = append(runs, r)
	}
	report := newReport("recovery", "of the processes")
	report.header(out)
	b.figures(report, undisturbed, runs)
	if plots[0] != "" {
		if err := writeStepsCSV(plots[0], runs); err != nil {
			return nil, err
		}
	}
	if plots[1] != "" {
		if err := plotThroughput(plots[1], fmt.Sprintf("%v", b), runs[0]); err != nil {
			return nil, err
		}
	}
	return report, nil
}

func newRecoveryRun(out io.Writer, o Options) (*recoveryRun, error) {
	if err := o.checkArgs("model", "code", "k", "r", "every", "batch", "ranks", "kills", "first", "gap", "mode", "lose", "digest", "csv", "png"); err != nil {
		return nil, err
	}
	b := &recoveryRun{out: out, o: o, batch: 2048, kills: 5, first: 100, gap: 200, overheadCase: overheadCase{ec.XOR, 4, 1, 10}}
	models := overheadShapes[:2]
	if o.Tiny {
		models = []shape{tinyShape}
		b.batch, b.kills, b.first, b.gap, b.k, b.every = 64, 1, 60, 20, 2, 3
	}
	i := slices.IndexFunc(models, func(s shape) bool { return s.name == o.option("model", models[0].name) })
	if i < 0 {
		return nil, settingError("no model %q here", o.option("model", ""))
	}
	b.shape = models[i]
	switch lose := o.option("lose", "worker"); lose {
	case "worker", "node":
		b.nodes = lose == "node"
	default:
		return nil, settingError("lose=%s: want worker or node", lose)
	}
	for _, n := range []struct {
		key  string
		to   *int
		most int
	}{
		{"k", &b.k, mostColumns}, {"r", &b.r, mostParity}, {"every", &b.every, 1 << 20}, {"batch", &b.batch, maxSamples},
		{"kills", &b.kills, 1000}, {"first", &b.first, math.MaxInt32}, {"gap", &b.gap, math.MaxInt32},
	} {
		var err error
		if *n.to, err = o.number(n.key, *n.to, 1, n.most); err != nil {
			return nil, err
		}
	}
	if b.r > 1 {
		b.code = ec.RS
	}
	b.code = o.option("code", b.code)
	var err error
	b.ranks, err = o.number("ranks", b.k+b.r, 2, 64)
	return b, err
}

func (b *recoveryRun) String() string {
	s := fmt.Sprintf("%s batch %d ranks %d %v", b.shape.name, b.batch, b.ranks, b.overheadCase)
	if b.nodes {
		s += ", nodes lost"
	}
	return s
}

// faults kills each rank in its turn.
func (b *recoveryRun) faults() (specs []string) {
	for i := range b.kills {
		if b.nodes {
			specs = append(specs, fmt.Sprintf("node:%d@%d", (i+1)%b.ranks, b.first+i*b.gap))
			continue
		}
		specs = append(specs, fmt.Sprintf("kill:%d@%d:%s", (i+1)%b.ranks, b.first+i*b.gap, train.Calm))
	}
	return specs
}

// steps is how many a run has: every kill is followed by gap of them, unless it had to
// wait.
func (b *recoveryRun) steps() int { return b.first + b.kills*b.gap }

// figures adds all to a report.
func (b *recoveryRun) figures(r *Report, undisturbed jobRun, runs []jobRun) {
	name := b.String()
	var losses []*train.Recovery
	var normal, while, per100MB, lost, share []float64
	copied := copyRate(b.o.Tiny)
	for i := range runs {
		for k := range runs[i].Recoveries {
			x := &runs[i].Recoveries[k]
			losses = append(losses, x)
			usual, after := runs[i].around(x)
			mb := float64(x.RowsDecoded) * float64(b.rowBytes()) / 1e6
			lost = append(lost, mb)
			if usual > 0 {
				normal = append(normal, usual)
			}
			if usual > 0 && after > 0 {
				while = append(while, 100*after/usual)
			}
			if seconds := (x.WholeMS - x.ResumeMS) / 1e3; seconds > 0 && mb > 0 {
				per100MB = append(per100MB, 100*seconds/mb)
				share = append(share, 100*b.movedGB(x)/seconds/copied)
			}
		}
	}
	fmt.Fprintf(b.out, "\n%s: %d losses (of %d) in %d runs of %d processes; digest as without a loss: %s\n", name, len(losses), b.kills*len(runs), len(runs), b.ranks, undisturbed.Digest)
	t := table(b.out)
	fmt.Fprintln(t, "\tp50\tp95\tleast\tgreatest\t\t")
	line := func(what, unit string, values []float64) {
		if len(values) == 0 {
			return
		}
		f := r.add(name+": "+what, unit, values...)
		high := r.add(name+": "+what+" p95", unit, quantile(values, 0.95))
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
	line("steps redone", "", of(func(x *train.Recovery) float64 { return float64(x.StepsRedone) }))
	line("rows decoded on demand", "", of(func(x *train.Recovery) float64 { return float64(x.RowsOnDemand) }))
	line("rows decoded and parities encoded in the background", "", of(func(x *train.Recovery) float64 { return float64(x.RowsDecoded - x.RowsOnDemand) }))
	line("read for them", "MB", of(func(x *train.Recovery) float64 { return float64(x.BytesRead) / 1e6 }))
	line("rows and parities lost", "MB", lost)
	line("from resume to whole, for 100 MB", "s", per100MB)
	line("throughput before a loss and after whole", "samples/s", normal)
	line("from resume to whole, of that", "%", while)
	line("memory moved meanwhile, of what a core copies", "%", share)
	r.add(name+": copied by a core, read and written", "GB/s", copied)
	fmt.Fprintf(t, "copied by a core, read and written\t%.1f\t\t\t\tGB/s\t\n", copied)
	if len(undisturbed.steps) > 0 {
		line("throughput of a run without a loss", "samples/s", []float64{undisturbed.throughput(0, len(undisturbed.steps))})
	}
	t.Flush()
}

// rowBytes is a row's, with adagrad's state.
func (b *recoveryRun) rowBytes() int { return 8 * b.shape.dim }

// movedGB is about what a rebuild reads and writes of memory: each row of another member
// where it lies, into what is sent, and from there to the one that lacks it; what is
// decoded of them; and the row in its place, whose line is read before it is written.
func (b *recoveryRun) movedGB(x *train.Recovery) float64 {
	read, lost := float64(x.BytesRead), float64(x.RowsDecoded)*float64(b.rowBytes())
	return (5*read + 4*lost) / 1e9
}

// copyRate is how much memory a core reads and writes when it copies, in GB/s.
func copyRate(tiny bool) float64 {
	size := 256 << 20
	if tiny {
		size = 1 << 20
	}
	from, to := bytes.Repeat([]byte{1}, size), make([]byte, size)
	copy(to, from) // takes memory
	best := time.Duration(math.MaxInt64)
	for range 5 {
		began := time.Now()
		copy(to, from)
		best = min(best, time.Since(began))
	}
	return 2 * float64(size) / float64(max(1, best)) // bytes a ns
}

// quantile is the least value that a share p of all does not exceed.
func quantile(values []float64, p float64) float64 {
	v := slices.Clone(values)
	slices.Sort(v)
	return v[max(0, int(math.Ceil(p*float64(len(v))))-1)]
}
