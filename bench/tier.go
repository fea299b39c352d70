package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

var tierBench = Bench{
	Name: "tier",
	Doc:  "rows read per step if only a share of them is in memory, by policy",
	Detail: "Counts the rows that one owner would read from a disk. The policies are LRU over batches, as in OpenEmbedding (ICDE 2023), " +
		"package tier with some steps of lookahead, and the optimum in hindsight (Belady's rule over batches). First uses read nothing. " +
		"As many steps as are counted fill the memory before them, and at least as many follow. The optimum puts reads off to the end of " +
		"the run, so only the reads of all steps are a bound for others. Nothing is timed.",
	Settings: []Setting{
		choice("skew", "criteo", tierSkews(), "popularity of ids: synthetic Criteo Kaggle, the same with bursts, OpenEmbedding's table "+
			"II, or 1/rank^a in tables of Kaggle's sizes"),
		number("rows", "10500000", 26, math.MaxInt32, "rows of the model with skew=openembedding").orTiny("20000"),
		number("batch", "4096", 1, maxSamples, "samples of a step, with 26 ids each").orTiny("96"),
		number("steps", "200", 1, 100_000, "steps to count").orTiny("8"),
		numbers("lookahead", "4,50,200", 0, 1000, "future steps whose rows are planned").orTiny("1,4"),
		text("share", "100,25,6.4,1.6,0.4", "percentages from 0 to 100, separated by commas", "rows in memory, in per cent").orTiny("100,25,16"),
		choice("of", "rows", []string{"rows", "touched"}, "the rows of the model, or the rows that the run uses"),
		number("every", "1", 1, 100_000, "steps of an epoch, after which the log holds its rows").orTiny("2"),
		number("dim", "64", 1, 1<<16, "floats of a row, besides one of row-wise adagrad"),
	},
	Evidence: Counted,
	measure:  runTier,
}

// openEmbedding names the popularity of ids in the workload of OpenEmbedding.
const openEmbedding = "openembedding"

// tierSkews lists the values of the setting skew.
func tierSkews() []string {
	all := []string{"criteo", "criteo-bursts", openEmbedding}
	for _, law := range skews {
		all = append(all, law.exponentText())
	}
	return all
}

// exponentText returns the exponent, as text.
func (p powerLaw) exponentText() string { return fmt.Sprintf("%.3f", p.exponent()) }

func runTier(out io.Writer, o Options) (*Report, error) {
	shares, err := o.tierShares()
	if err != nil {
		return nil, err
	}
	stream, err := o.tierStream()
	if err != nil {
		return nil, err
	}
	lookaheads, most := o.numbers("lookahead"), 0
	for _, l := range lookaheads {
		most = max(most, l)
	}
	steps := o.number("steps")
	trace, err := newTierTrace(stream, steps, steps, max(steps, most))
	if err != nil {
		return nil, err
	}
	report := o.newReport("none")
	report.writeHeader(out)
	report.tierStream(out, o, trace)
	rows := trace.rows
	if o.text("of") == "touched" {
		rows = int64(len(trace.counts))
	}
	var counted []tierShare
	for _, share := range shares {
		counted = append(counted, trace.countShare(share, int(math.Ceil(share/100*float64(rows))), lookaheads, o.number("every")))
	}
	report.tierTable(out, trace, counted, 4*(o.number("dim")+1))
	tierVerdict(out, counted)
	return report, nil
}

// tierShares returns the percentages of the setting share.
func (o Options) tierShares() (all []float64, err error) {
	for _, s := range strings.Split(o.text("share"), ",") {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || !(x > 0 && x <= 100) {
			return nil, settingError("share=%s: want percentages above 0 and up to 100, separated by commas", o.text("share"))
		}
		all = append(all, x)
	}
	return all, nil
}

// tierStream returns the rows that one owner's trainer uses.
func (o Options) tierStream() (*cacheStream, error) {
	skew, batch := o.text("skew"), o.number("batch")
	if skew == openEmbedding {
		tables := make([]int64, 26)
		for i := range tables {
			tables[i] = int64(o.number("rows") / len(tables))
		}
		return newCacheStream(tables, 1, drawIDs(newShareLaw(openEmbeddingShares, float64(tables[0])), tables, 1, batch)), nil
	}
	tables, err := streamTables("criteo-kaggle", o.Tiny)
	if err != nil {
		return nil, err
	}
	for _, law := range skews {
		if law.exponentText() == skew {
			return newCacheStream(tables, 1, law.ids(tables, 1, batch)), nil
		}
	}
	law := independentStream
	if skew == "criteo-bursts" {
		law = burstStream
	}
	ids, err := namedStream(law, "criteo-kaggle", o.Tiny)
	if err != nil {
		return nil, err
	}
	return newCacheStream(ids.tables, 1, ids.draw(1, batch)), nil
}

// tierStream reports the stream: its rows, and the share of the lookups that the most popular ones have.
func (r *Report) tierStream(out io.Writer, o Options, t *tierTrace) {
	fmt.Fprintf(out, "\nskew %s, %d rows of %d floats, batch %d; after %d steps, %d steps are counted; epochs of %d; %d steps in all\n", o.text("skew"),
		t.rows, o.number("dim")+1, o.number("batch"), t.warm, t.steps, o.number("every"), len(t.used))
	fmt.Fprintf(out, "per step: %.0f lookups of %.0f distinct rows, of which %.0f are used for the first time; %.0f rows used in all\n",
		r.addFigure("lookups", "per step", t.perStep(t.lookups)).Median, r.addFigure("distinct rows", "rows/step", t.perStep(t.uses)).Median,
		r.addFigure("first uses", "rows/step", t.perStep(t.firsts)).Median, r.addFigure("rows used in all", "rows", float64(len(t.counts))).Median)
	for i, share := range []float64{0.05, 0.1, 1} {
		name := fmt.Sprintf("lookups of the top %g %% of all rows", share)
		fmt.Fprintf(out, "%s: %.1f %% (OpenEmbedding, table II: %.1f %%)\n", name, r.addFigure(name, "%", 100*t.topShare(share/100)).Median,
			100*openEmbeddingShares[i].lookups)
	}
}

// tierTable reports the counts.
func (r *Report) tierTable(out io.Writer, trace *tierTrace, counted []tierShare, rowBytes int) {
	t := table(out)
	defer t.Flush()
	fmt.Fprint(t, "\n% in memory\trows\tpolicy\tread per step\t% of rows used\t% of lookups\tMB read\tspilled\tread in all steps\t\n")
	for _, s := range counted {
		for _, c := range s.counts {
			fmt.Fprintf(t, "%g\t%d\t%s\t", s.share, s.frames, c.policy)
			if c.needed > 0 {
				fmt.Fprintf(t, "a step needs %d\t\t\t\t\t\t\n", c.needed)
				continue
			}
			name := fmt.Sprintf("%g %% in memory, %s: ", s.share, c.policy)
			reads := trace.perStep(c.reads)
			fmt.Fprintf(t, "%.0f\t%.2f\t%.2f\t%.3f\t%.0f\t%.0f\t\n", r.addFigure(name+"read", "rows/step", reads).Median,
				r.addFigure(name+"read of the rows used", "%", 100*reads/trace.perStep(trace.uses)).Median,
				r.addFigure(name+"read of the lookups", "%", 100*reads/trace.perStep(trace.lookups)).Median,
				r.addFigure(name+"bytes read", "bytes/step", reads*float64(rowBytes)).Median/1e6,
				r.addFigure(name+"spilled", "rows/step", trace.perStep(c.spilled)).Median,
				r.addFigure(name+"read in all steps", "rows", float64(c.all)).Median)
		}
	}
}

// tierVerdict prints whether the reads of all steps, warm or not, are in the expected order: those of LRU, of the policy
// with more and more lookahead, and of the optimum.
func tierVerdict(out io.Writer, counted []tierShare) {
	inOrder := true
	for _, s := range counted {
		for i := 1; i < len(s.counts); i++ {
			if a, b := s.counts[i-1], s.counts[i]; b.all > a.all {
				inOrder = false
				fmt.Fprintf(out, "OUT OF ORDER at %g %%: %s reads %d rows in all steps, %s %d\n", s.share, a.policy, a.all, b.policy, b.all)
			}
		}
	}
	if inOrder {
		fmt.Fprintln(out, "reads fall from LRU over each lookahead to the optimum, for every share")
	}
}
