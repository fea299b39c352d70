package bench

import (
	"fmt"
	"io"
	"strings"

	"github.com/ecrec/ecrec/train"
)

var rebuildBench = Bench{
	Name: "rebuild",
	Doc:  "training while lost rows are rebuilt, by rate; a rebuild beside a bare loop",
	Detail: "First rebuilds one of the ranks of a group in the memory of one process, and does the same reads, copies, XOR and first " +
		"writes in a bare loop, in turns. Then starts jobs of real processes, one for each rate, and kills their ranks in turn. The value of a job " +
		"is the median of its losses. " +
		"The digests must be equal.",
	Settings: []Setting{
		choice("part", "all", []string{"all", "memory", "jobs"}, "parts to measure"),
		choice("model", "dim16", []string{"dim16", "dim48"}, "model to train, and the size of the rows in memory"),
		text("rates", "8MiB,32MiB,128MiB,auto,max", "rates, separated by commas", "values of ec.rebuild_rate").orTiny("auto,max"),
		number("rows", "4000000", 1000, 1<<30, "rows in memory, over all ranks").orTiny("5000"),
		number("touched", "100", 1, 100, "percentage of these that was written"),
		choice("code", "", []string{"xor", "rs"}, "erasure code. Default: xor for r = 1, else rs"),
		number("k", "4", 1, mostColumns, "data rows in a stripe").orTiny("2"),
		number("r", "1", 1, mostParity, "parity rows in a stripe"),
		number("every", "10", 1, 1<<20, "steps between commits").orTiny("3"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("kills", "3", 1, 1000, "losses in each job").orTiny("1"),
		number("first", "100", 1, maxSteps, "step of the first loss").orTiny("60"),
		number("gap", "200", 1, maxSteps, "steps between two losses").orTiny("20"),
		modeSetting,
	},
	Bars: []Bar{{[]string{"part=memory", "k=4", "r=1"}, "a rebuild without a bound reaches 0.70 of a bare loop of the same reads, copies, XOR and first writes",
		oneWay(atLeast("in memory: "+bareTime, Lower, 70))}},
	measure: runRebuild,
}

// bareTime is the figure of the time of the bare loop, as a share of the rebuild's.
const bareTime = "time of the bare loop, of the rebuild's"

func runRebuild(out io.Writer, o Options) (*Report, error) {
	report := o.newReport("one of memory, those of the processes of jobs")
	report.writeHeader(out)
	r := o.number("r")
	b := &recoveryRun{out: out, o: o, shape: o.models("dim16")[0], overheadCase: overheadCase{o.codeFor(r), o.number("k"), r, o.number("every")},
		batch: o.number("batch"), ranks: o.number("k") + r, kills: o.number("kills"), first: o.number("first"), gap: o.number("gap")}
	part := o.text("part")
	if part != "jobs" {
		if err := b.rebuildInMemory(report); err != nil {
			return nil, err
		}
	}
	if part != "memory" {
		if err := b.rebuildByRate(report); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// rebuildByRate runs a job for each rate, in turns, and kills its ranks.
func (b *recoveryRun) rebuildByRate(report *Report) error {
	program, err := b.o.programPath()
	if err != nil {
		return err
	}
	rates := strings.Split(b.o.text("rates"), ",")
	found := make([]rebuildTimes, len(rates))
	digest := ""
	for turn := 0; b.o.moreTurns(turn, b.o.repeats()); turn++ {
		for i, rate := range rates {
			b.rate = rate
			x, err := b.runJob(program, b.faultSpecs())
			if err != nil {
				return fmt.Errorf("ec.rebuild_rate %s: %w", rate, err)
			}
			if digest == "" {
				digest = x.Digest
			}
			if x.Digest != digest || len(x.Recoveries) == 0 {
				return fmt.Errorf("bench: digest %s after %d recoveries at rate %s, %s at rate %s", x.Digest, len(x.Recoveries), rate, digest, rates[0])
			}
			found[i].addJob(&x)
		}
	}
	fmt.Fprintf(b.out, "\n%v: %d losses in each job; all digests: %s\n", b, b.kills, digest)
	t := table(b.out)
	defer t.Flush()
	fmt.Fprintln(t, "ec.rebuild_rate\trebuilt by a rank MB/s\tfrom loss to rebuilt ms\tthroughput meanwhile, of normal %\tsteps meanwhile\t")
	for i, rate := range rates {
		fmt.Fprintf(t, "%s\t", rate)
		for _, c := range []struct {
			name, unit string
			values     []float64
		}{{"rebuilt by a rank", "MB/s", found[i].rate}, {"from loss to rebuilt", "ms", found[i].whole},
			{"throughput meanwhile, of normal", "%", found[i].kept}, {"steps meanwhile", "", found[i].steps}} {
			if len(c.values) == 0 {
				fmt.Fprint(t, "-\t")
				continue
			}
			first := len(report.Figures)
			f := report.addFigure(c.name, c.unit, c.values...)
			report.setCase(first, map[string]string{"rate": rate})
			fmt.Fprintf(t, "%.1f (%.1f-%.1f)\t", f.Median, f.Min, f.Max)
		}
		fmt.Fprintln(t)
	}
	return nil
}

// rebuildTimes are the figures of a rate, by job or by loss.
type rebuildTimes struct{ rate, whole, kept, steps []float64 }

// addJob adds the medians of the losses of a job: its losses are no repeats, since they share its processes and its time.
func (f *rebuildTimes) addJob(x *jobRun) {
	var of rebuildTimes
	for k := range x.Recoveries {
		of.addLoss(x, &x.Recoveries[k])
	}
	f.addMedians(of)
}

// addMedians adds the median of each figure of some losses. A figure that no loss has is left out.
func (f *rebuildTimes) addMedians(of rebuildTimes) {
	for _, x := range []struct {
		to     *[]float64
		losses []float64
	}{{&f.rate, of.rate}, {&f.whole, of.whole}, {&f.kept, of.kept}, {&f.steps, of.steps}} {
		if len(x.losses) > 0 {
			*x.to = append(*x.to, figure("", "", x.losses).Median)
		}
	}
}

// addLoss adds a loss of a job. A rebuild that ends with the first step shows nothing of its throughput.
func (f *rebuildTimes) addLoss(x *jobRun, loss *train.Recovery) {
	f.rate = append(f.rate, loss.RebuildRate/1e6)
	f.whole = append(f.whole, loss.WholeMS)
	f.steps = append(f.steps, float64(loss.RebuildSteps))
	if usual, after := x.throughputAround(loss); usual > 0 && after > 0 {
		f.kept = append(f.kept, 100*after/usual)
	}
}
