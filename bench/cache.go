package bench

import (
	"fmt"
	"io"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/kernels"
)

var cacheBench = Bench{
	Name: "cache",
	Doc: "rows and row-sized messages that each cache mode moves, counted exactly on the synthetic Criteo Kaggle stream " +
		"(settings: trainers=N, batch=N, lookahead=N, steps=N to count, after as many as the lookahead to fill the caches)",
	Run: runCache,
}

// cacheRowWidth is the floats of a row whose bytes are counted: the DLRM's of the
// paper.
const cacheRowWidth = 48

// cacheOptimizers are those whose state is counted where it moves with a row: the
// default, and the one with most.
var cacheOptimizers = []struct {
	name string
	kind kernels.OptimizerKind
}{{"rowwise_adagrad", kernels.RowwiseAdagrad}, {"adam", kernels.Adam}}

// cacheSettings are the settings of the benchmarks that count.
type cacheSettings struct{ trainers, batch, lookahead, steps int }

func (o Options) cacheSettings(lookahead, steps int) (c cacheSettings, err error) {
	if err := o.checkArgs("trainers", "batch", "lookahead", "steps"); err != nil {
		return c, err
	}
	fallback := cacheSettings{8, 16384, lookahead, steps}
	if o.Tiny {
		fallback = cacheSettings{3, 96, 4, 6}
	}
	for _, s := range []struct {
		key  string
		to   *int
		from int
		most int
	}{
		{"trainers", &c.trainers, fallback.trainers, mostRanks},
		{"batch", &c.batch, fallback.batch, maxSamples},
		{"lookahead", &c.lookahead, fallback.lookahead, 1000},
		{"steps", &c.steps, fallback.steps, 100_000},
	} {
		if *s.to, err = o.number(s.key, s.from, 1, s.most); err != nil {
			return c, err
		}
	}
	return c, nil
}

func runCache(out io.Writer, o Options) (*Report, error) {
	c, err := o.cacheSettings(200, 50)
	if err != nil {
		return nil, err
	}
	tables, err := cacheTables(o.Tiny)
	if err != nil {
		return nil, err
	}
	report := newReport("cache", "none")
	report.header(out)
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
	unique := report.add("distinct rows per batch", "rows", counted.distinct)
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

// paperRows are the distinct rows that the paper says are synchronised at a step
// of 16,384 samples on 8 trainers, all and on the critical path.
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
		all := r.add(m.String()+": distinct rows synchronised", "rows/step", x.rows[later]+x.rows[critical])
		now := r.add(m.String()+": distinct rows synchronised, critical", "rows/step", x.rows[critical])
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
		}{{"messages", (*modeCount).sum}, {"messages of the busiest rank", (*modeCount).busiestRank}, {"messages of the busiest link", (*modeCount).busiestLink}} {
			name := fmt.Sprintf("%v: %s", m, q.what)
			all := r.add(name, "rows/step", q.of(x, x.all()))
			now := r.add(name+", critical", "rows/step", q.of(x, x.links[critical]))
			fmt.Fprintf(t, "%.0f\t%.0f\t", all.Median, now.Median)
		}
		fmt.Fprintln(t)
	}
	fmt.Fprintf(t, "optimum in hindsight\t%.0f\t\t\t\t\t\t\n", r.add("optimum: messages", "rows/step", c.optimum).Median)
}

// cacheBytes reports the bytes per step.
func (r *Report) cacheBytes(out io.Writer, c *cacheCounts) {
	t := table(out)
	defer t.Flush()
	fmt.Fprintf(t, "\nMB per step, rows of %d floats", cacheRowWidth)
	for _, k := range cacheOptimizers {
		fmt.Fprintf(t, "\t%s\tcritical", k.name)
	}
	fmt.Fprint(t, "\t\n")
	for m := range cacheModes {
		fmt.Fprintf(t, "%v\t", m)
		for _, k := range cacheOptimizers {
			name := fmt.Sprintf("%v: bytes with %s", m, k.name)
			all := r.add(name, "bytes/step", c.modes[m].bytes(k.kind, later)+c.modes[m].bytes(k.kind, critical))
			now := r.add(name+", critical", "bytes/step", c.modes[m].bytes(k.kind, critical))
			fmt.Fprintf(t, "%.2f\t%.2f\t", all.Median/1e6, now.Median/1e6)
		}
		fmt.Fprintln(t)
	}
	for _, k := range cacheOptimizers {
		for _, m := range []cacheMode{lrppReduced, lrppOwners} {
			share := r.add(fmt.Sprintf("planned of the bytes of %v with %s", m, k.name), "%", 100*c.ofBytes(planned, m, k.kind))
			verdict := "at most half"
			if share.Median > 50 {
				verdict = "MORE THAN HALF"
			}
			fmt.Fprintf(t, "planned moves of the bytes of %v\t%s: %.1f %%, %s\t\n", m, k.name, share.Median, verdict)
		}
	}
}

// bytes is what a mode moves per step on a path.
func (c *modeCount) bytes(k kernels.OptimizerKind, path int) float64 {
	return 4 * (cacheRowWidth*c.sum(c.links[path]) + float64(k.RowState(cacheRowWidth))*c.stateful[path])
}

// ofBytes is mode m's bytes as a share of another's.
func (c *cacheCounts) ofBytes(m, of cacheMode, k kernels.OptimizerKind) float64 {
	return (c.modes[m].bytes(k, later) + c.modes[m].bytes(k, critical)) / (c.modes[of].bytes(k, later) + c.modes[of].bytes(k, critical))
}

// cacheSizes reports how many rows are cached at the peak of each lookahead. c has
// been counted already.
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
		all := r.add(name+"rows cached by all together at the peak", "rows", counted.peakAll)
		one := r.add(name+"rows in one trainer's cache at the peak of mode lrpp", "rows", counted.peakTrainer)
		fmt.Fprintf(t, "%d\t%.0f\t%.0f\t%.1f\t\n", lookahead, all.Median, one.Median, 4*cacheRowWidth*one.Median/1e6)
	}
	return nil
}

// cacheLookaheads are the paper's (table 3) up to the one asked for, and that one.
func cacheLookaheads(most int) (all []int) {
	for _, l := range []int{10, 50, 100, 200} {
		if l < most {
			all = append(all, l)
		}
	}
	return append(all, most)
}
