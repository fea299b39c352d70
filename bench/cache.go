package bench

import (
	"fmt"
	"io"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/kernels"
)

var cacheBench = Bench{
	Name: "cache",
	Doc:  "rows, messages and bytes that each cache mode moves",
	Detail: "Counts exactly what the modes would move on the synthetic Criteo Kaggle stream. Nothing is timed. " +
		"Before counting, as many steps as the lookahead fill the caches.",
	Settings: cacheSettingsOf("200", "50"),
	Evidence: Counted,
	measure:  runCache,
}

// cacheSettingsOf declares the settings of the benchmarks that count, with their defaults.
func cacheSettingsOf(lookahead, steps string) []Setting {
	return []Setting{
		number("trainers", "8", 1, mostRanks, "ranks that train and own rows").orTiny("3"),
		number("batch", "16384", 1, maxSamples, "samples of a step, over all trainers").orTiny("96"),
		number("lookahead", lookahead, 1, 1000, "number of future steps in the window").orTiny("4"),
		number("steps", steps, 1, 100_000, "steps to count").orTiny("6"),
	}
}

// cacheRowWidth is the number of floats of a row, that of the paper's DLRM.
const cacheRowWidth = 48

// cacheOptimizers are the optimizers whose state is counted if it moves with a row: the default,
// and the one with the largest state.
var cacheOptimizers = []kernels.OptimizerKind{kernels.RowwiseAdagrad, kernels.Adam}

// cacheSettings are the settings of the benchmarks that count.
type cacheSettings struct{ trainers, batch, lookahead, steps int }

func (o Options) cacheSettings() cacheSettings {
	return cacheSettings{o.number("trainers"), o.number("batch"), o.number("lookahead"), o.number("steps")}
}

func runCache(out io.Writer, o Options) (*Report, error) {
	c := o.cacheSettings()
	tables, err := cacheTables(o.Tiny)
	if err != nil {
		return nil, err
	}
	report := o.newReport("none")
	report.writeHeader(out)
	draw, err := criteoIDs(tables, c.trainers, c.batch)
	if err != nil {
		return nil, err
	}
	stream := newCacheStream(tables, c.trainers, draw)
	counted, err := countCache(stream, c)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "\nsynthetic Criteo Kaggle, %d trainers that also own the rows, batch %d, lookahead %d, %d steps\n",
		c.trainers, c.batch, c.lookahead, c.steps)
	unique := report.addFigure("distinct rows per batch", "rows", counted.distinct)
	fmt.Fprintf(out, "distinct rows per batch: %.0f (paper: 65,000)\n\n", unique.Median)
	report.cacheRows(out, counted)
	report.cacheMessages(out, counted)
	report.cacheBytes(out, counted)
	return report, report.cacheSizes(out, stream, c, counted)
}

func cacheTables(tiny bool) ([]int64, error) {
	tables, err := data.Tables("criteo-kaggle")
	if tiny {
		for i := range tables {
			tables[i] = min(tables[i], 1000)
		}
	}
	return tables, err
}

// paperRows are the distinct rows synchronised in a step of 16,384 samples on 8 trainers according
// to the paper: all, and those on the critical path.
var paperRows = map[cacheMode][2]string{
	replicated:  {"65,000", "65,000"},
	partitioned: {"21,000 (moves samples too)", ""},
	lrppReduced: {"48,000", "22,700"},
	lrppOwners:  {"48,000", "22,700"},
}

// cacheRows reports the distinct rows per step.
func (r *Report) cacheRows(out io.Writer, c *cacheCounts) {
	t := table(out)
	defer t.Flush()
	fmt.Fprint(t, "distinct rows synchronised per step\tall\tpaper\tcritical\tpaper\t\n")
	for m := range cacheModes {
		x := &c.modes[m]
		all := r.addFigure(m.String()+": distinct rows synchronised", "rows/step", x.rows[later]+x.rows[critical])
		now := r.addFigure(m.String()+": distinct rows synchronised, critical", "rows/step", x.rows[critical])
		fmt.Fprintf(t, "%v\t%.0f\t%s\t%.0f\t%s\t\n", m, all.Median, paperRows[m][0], now.Median, paperRows[m][1])
	}
}

// cacheMessages reports the row-sized messages per step.
func (r *Report) cacheMessages(out io.Writer, c *cacheCounts) {
	t := table(out)
	defer t.Flush()
	fmt.Fprint(t, "\nrow-sized messages per step\tall\tcritical\tof the busiest rank, in and out\tcritical\tof the busiest link\tcritical\t\n")
	for m := range cacheModes {
		x := &c.modes[m]
		fmt.Fprintf(t, "%v\t", m)
		for _, q := range []struct {
			what string
			of   func(x *modeCount, links []float64) float64
		}{{"messages", (*modeCount).sumOf}, {"messages of the busiest rank", (*modeCount).busiestRank},
			{"messages of the busiest link", (*modeCount).busiestLink}} {
			name := fmt.Sprintf("%v: %s", m, q.what)
			all := r.addFigure(name, "rows/step", q.of(x, x.allMessages()))
			now := r.addFigure(name+", critical", "rows/step", q.of(x, x.links[critical]))
			fmt.Fprintf(t, "%.0f\t%.0f\t", all.Median, now.Median)
		}
		fmt.Fprintln(t)
	}
	fmt.Fprintf(t, "optimum in hindsight\t%.0f\t\t\t\t\t\t\n", r.addFigure("optimum: messages", "rows/step", c.optimum).Median)
}

// cacheBytes reports the bytes per step.
func (r *Report) cacheBytes(out io.Writer, c *cacheCounts) {
	t := table(out)
	defer t.Flush()
	fmt.Fprintf(t, "\nMB per step, rows of %d floats", cacheRowWidth)
	for _, k := range cacheOptimizers {
		fmt.Fprintf(t, "\t%s\tcritical", k)
	}
	fmt.Fprint(t, "\t\n")
	for m := range cacheModes {
		fmt.Fprintf(t, "%v\t", m)
		for _, k := range cacheOptimizers {
			name := fmt.Sprintf("%v: bytes with %s", m, k)
			all := r.addFigure(name, "bytes/step", c.modes[m].bytes(k, later)+c.modes[m].bytes(k, critical))
			now := r.addFigure(name+", critical", "bytes/step", c.modes[m].bytes(k, critical))
			fmt.Fprintf(t, "%.2f\t%.2f\t", all.Median/1e6, now.Median/1e6)
		}
		fmt.Fprintln(t)
	}
	for _, k := range cacheOptimizers {
		for _, m := range []cacheMode{lrppReduced, lrppOwners} {
			share := r.addFigure(fmt.Sprintf("planned of the bytes of %v with %s", m, k), "%", 100*c.ofBytes(planned, m, k))
			verdict := "at most half"
			if share.Median > 50 {
				verdict = "MORE THAN HALF"
			}
			fmt.Fprintf(t, "planned moves of the bytes of %v\t%s: %.1f %%, %s\t\n", m, k, share.Median, verdict)
		}
	}
}

// bytes returns the bytes that a mode moves per step on a path.
func (c *modeCount) bytes(k kernels.OptimizerKind, path int) float64 {
	return 4 * (cacheRowWidth*c.sumOf(c.links[path]) + float64(k.RowState(cacheRowWidth))*c.stateful[path])
}

// ofBytes returns the bytes of mode m as a share of those of another mode.
func (c *cacheCounts) ofBytes(m, of cacheMode, k kernels.OptimizerKind) float64 {
	return (c.modes[m].bytes(k, later) + c.modes[m].bytes(k, critical)) / (c.modes[of].bytes(k, later) + c.modes[of].bytes(k, critical))
}

// cacheSizes reports how many rows are cached at the peak of each lookahead. c holds the counts of
// the lookahead in settings.
func (r *Report) cacheSizes(out io.Writer, s *cacheStream, settings cacheSettings, c *cacheCounts) error {
	t := table(out)
	defer t.Flush()
	fmt.Fprint(t, "\nlookahead\trows cached at the peak\tin one trainer's cache\tMB of weights\t\n")
	for _, lookahead := range cacheLookaheads(settings.lookahead) {
		counted := c
		if lookahead != settings.lookahead {
			var err error
			if counted, err = countCache(s, cacheSettings{lookahead: lookahead, steps: settings.steps}); err != nil {
				return err
			}
		}
		name := fmt.Sprintf("lookahead %d: ", lookahead)
		all := r.addFigure(name+"rows cached by all together at the peak", "rows", counted.peakAll)
		one := r.addFigure(name+"rows in one trainer's cache at the peak of mode lrpp", "rows", counted.peakTrainer)
		fmt.Fprintf(t, "%d\t%.0f\t%.0f\t%.1f\t\n", lookahead, all.Median, one.Median, 4*cacheRowWidth*one.Median/1e6)
	}
	return nil
}

// cacheLookaheads returns the lookaheads of the paper (table 3) below most, and most.
func cacheLookaheads(most int) (all []int) {
	for _, l := range []int{10, 50, 100, 200} {
		if l < most {
			all = append(all, l)
		}
	}
	return append(all, most)
}
