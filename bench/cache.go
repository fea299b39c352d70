package bench

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/ecrec/ecrec/kernels"
)

var cacheBench = Bench{
	Name: "cache",
	Doc:  "rows, messages and bytes that each cache mode moves",
	Detail: "Counts exactly the rows that the modes would move for a stream of ids. Nothing is timed. " +
		"Before counting, as many steps as the lookahead fill the caches.",
	Settings: append(append(cacheSettingsOf("200", "50"),
		numbers("sizes", "5,10,50,100", 1, 1000, "further lookaheads, for which only the sizes of the caches are counted").orTiny("2,3")),
		streamSettings()...),
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
	ids, err := o.openStream()
	if err != nil {
		return nil, err
	}
	defer ids.close()
	lookaheads := cacheLookaheads(o.numbers("sizes"), c.lookahead)
	if err := ids.checkLength(int64(2*lookaheads[len(lookaheads)-1]+c.steps+1), c.batch); err != nil {
		return nil, err
	}
	report := o.newReport("none")
	report.writeHeader(out)
	stream := newCacheStream(ids.tables, c.trainers, ids.draw(c.trainers, c.batch))
	counted, err := countCache(stream, c)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "\n%s; %d trainers that also own the rows, batch %d, lookahead %d, %d steps\n",
		ids.name, c.trainers, c.batch, c.lookahead, c.steps)
	unique := report.addFigure("distinct rows", "rows/step", counted.distinct)
	fmt.Fprintf(out, "distinct rows per batch: %.0f (BagPipe, fig. 7: 65,000)\n\n", unique.Median)
	report.cacheRows(out, counted)
	report.cacheMessages(out, counted)
	report.cacheBytes(out, counted)
	return report, report.cacheSizes(out, stream, c, counted, lookaheads)
}

// paperRows are the distinct rows synchronised in a step of 16,384 samples on 8 trainers according
// to BagPipe (SOSP 2023): all (fig. 7), and those on the critical path (fig. 8).
var paperRows = map[cacheMode][2]string{
	replicated:  {"65,000", "65,000"},
	partitioned: {"21,000 (places samples)", ""},
	lrppReduced: {"48,000", "22,700"},
	lrppOwners:  {"48,000", "22,700"},
}

// addCase adds a quantity of a case: KEY, VALUE, KEY, VALUE.
func (r *Report) addCase(name, unit string, value float64, of ...string) Figure {
	first := len(r.Figures)
	f := r.addFigure(name, unit, value)
	c := map[string]string{}
	for i := 0; i+1 < len(of); i += 2 {
		c[of[i]] = of[i+1]
	}
	r.setCase(first, c)
	return f
}

// cacheRows reports the distinct rows per step.
func (r *Report) cacheRows(out io.Writer, c *cacheCounts) {
	t := table(out)
	defer t.Flush()
	fmt.Fprint(t, "distinct rows synchronised per step\tall\tBagPipe, fig. 7\tcritical\tBagPipe, fig. 8\t\n")
	for m := range cacheModes {
		x := &c.modes[m]
		all := r.addCase("rows", "rows/step", x.rows[later]+x.rows[critical], "mode", m.String())
		now := r.addCase("rows, critical", "rows/step", x.rows[critical], "mode", m.String())
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
			name string
			of   func(x *modeCount, links []float64) float64
		}{{"messages", (*modeCount).sumOf}, {"messages of the busiest rank", (*modeCount).busiestRank},
			{"messages of the busiest link", (*modeCount).busiestLink}} {
			all := r.addCase(q.name, "rows/step", q.of(x, x.allMessages()), "mode", m.String())
			now := r.addCase(q.name+", critical", "rows/step", q.of(x, x.links[critical]), "mode", m.String())
			fmt.Fprintf(t, "%.0f\t%.0f\t", all.Median, now.Median)
		}
		fmt.Fprintln(t)
	}
	fmt.Fprintf(t, "optimum in hindsight\t%.0f\t\t\t\t\t\t\n", r.addCase("messages", "rows/step", c.optimum, "mode", "optimum").Median)
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
			of := []string{"mode", m.String(), "optimizer", k.String()}
			all := r.addCase("bytes", "bytes/step", c.modes[m].bytes(k, later)+c.modes[m].bytes(k, critical), of...)
			now := r.addCase("bytes, critical", "bytes/step", c.modes[m].bytes(k, critical), of...)
			fmt.Fprintf(t, "%.2f\t%.2f\t", all.Median/1e6, now.Median/1e6)
		}
		fmt.Fprintln(t)
	}
	fmt.Fprint(t, "planned: critical of its bytes, %\t")
	for _, k := range cacheOptimizers {
		x := &c.modes[planned]
		share := 100 * x.bytes(k, critical) / (x.bytes(k, later) + x.bytes(k, critical))
		fmt.Fprintf(t, "\t%.1f\t", r.addCase("critical of the bytes", "%", share, "mode", planned.String(), "optimizer", k.String()).Median)
	}
	fmt.Fprintln(t)
	for _, m := range []cacheMode{lrppReduced, lrppOwners} {
		fmt.Fprintf(t, "planned: bytes in %% of those of %v\t", m)
		for _, k := range cacheOptimizers {
			share := r.addCase("planned of the bytes", "%", 100*c.ofBytes(planned, m, k), "mode", m.String(), "optimizer", k.String())
			fmt.Fprintf(t, "%.1f\t\t", share.Median)
		}
		fmt.Fprintln(t)
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
func (r *Report) cacheSizes(out io.Writer, s *cacheStream, settings cacheSettings, c *cacheCounts, lookaheads []int) error {
	t := table(out)
	defer t.Flush()
	fmt.Fprintf(t, "\nlookahead\trows cached at the peak\tin one trainer's cache\tMB of weights\twith %s\tBagPipe, tab. 3\t\n",
		cacheOptimizers[0])
	for _, lookahead := range lookaheads {
		counted := c
		if lookahead != settings.lookahead {
			var err error
			if counted, err = countCache(s, cacheSettings{lookahead: lookahead, steps: settings.steps}); err != nil {
				return err
			}
		}
		of := []string{"lookahead", strconv.Itoa(lookahead)}
		bytes := 4 * cacheRowWidth * counted.peakTrainer
		state := 4 * float64(cacheOptimizers[0].RowState(cacheRowWidth)) * counted.peakTrainer
		all := r.addCase("rows cached by all", "rows", counted.peakAll, of...)
		one := r.addCase("rows cached by a trainer", "rows", counted.peakTrainer, of...)
		fmt.Fprintf(t, "%d\t%.0f\t%.0f\t%.1f\t%.1f\t%s\t\n", lookahead, all.Median, one.Median,
			r.addCase("cache", "bytes", bytes, of...).Median/1e6,
			r.addCase("cache with state", "bytes", bytes+state, of...).Median/1e6, paperSizes[lookahead])
	}
	return nil
}

// paperSizes are the MB of the caches of BagPipe (SOSP 2023, table 3), by lookahead.
var paperSizes = map[int]string{5: "39.6", 10: "66.7", 50: "235.2", 100: "410.5", 200: "720.6", 300: "1003.3"}

// cacheLookaheads returns some lookaheads and another one, ascending.
func cacheLookaheads(sizes []int, lookahead int) []int {
	all := append(slices.Clone(sizes), lookahead)
	slices.Sort(all)
	return slices.Compact(all)
}
