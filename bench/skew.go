package bench

import (
	"fmt"
	"io"
)

var skewBench = Bench{
	Name: "skew",
	Doc: "rows and bytes that cache modes move as the skew of the ids varies, in the shape of Criteo Kaggle " +
		"(settings: trainers=N, batch=N, lookahead=N, steps=N, as for cache)",
	Run: runSkew,
}

// skews are the laws tried, from flat to steep.
var skews = []powerLaw{{k: 2}, {k: 4}, {k: 8}, {k: 8, above: true}, {k: 4, above: true}, {k: 2, above: true}, {k: 1, above: true}}

func runSkew(out io.Writer, o Options) (*Report, error) {
	c, err := o.cacheSettings(50, 10)
	if err != nil {
		return nil, err
	}
	tables, err := cacheTables(o.Tiny)
	if err != nil {
		return nil, err
	}
	report := newReport("skew", "none")
	report.header(out)
	fmt.Fprintf(out, "\nids of popularity 1/rank^a in tables like Criteo Kaggle's, %d trainers, batch %d, lookahead %d, %d steps; MB per step with %s\n\n",
		c.trainers, c.batch, c.lookahead, c.steps, cacheOptimizers[0].name)
	t := table(out)
	defer t.Flush()
	fmt.Fprint(t, "a\tdistinct rows\tlrpp shared\tcritical\tnone MB\tlrpp reduced MB\tlrpp owners MB\tplanned MB\tcritical\tplanned of lrpp owners %\t\n")
	for _, law := range skews {
		counted, err := countCache(newCacheStream(tables, c.trainers, law.ids(tables, c.trainers, c.batch)), c)
		if err != nil {
			return nil, err
		}
		report.skewFigures(t, law, counted)
	}
	return report, nil
}

func (r *Report) skewFigures(t io.Writer, law powerLaw, c *cacheCounts) {
	name := fmt.Sprintf("a = %.3f: ", law.exponent())
	lrpp := &c.modes[lrppOwners]
	fmt.Fprintf(t, "%.3f\t%.0f\t%.0f\t%.0f\t", law.exponent(),
		r.add(name+"distinct rows per batch", "rows", c.distinct).Median,
		r.add(name+"lrpp: distinct rows synchronised", "rows/step", lrpp.rows[later]+lrpp.rows[critical]).Median,
		r.add(name+"lrpp: distinct rows synchronised, critical", "rows/step", lrpp.rows[critical]).Median)
	kind := cacheOptimizers[0].kind
	bytes := func(m cacheMode, paths ...int) float64 {
		sum := 0.0
		for _, p := range paths {
			sum += c.modes[m].bytes(kind, p)
		}
		return sum
	}
	for _, m := range []cacheMode{noCache, lrppReduced, lrppOwners, planned} {
		fmt.Fprintf(t, "%.2f\t", r.add(fmt.Sprintf("%s%v: bytes", name, m), "bytes/step", bytes(m, later, critical)).Median/1e6)
	}
	fmt.Fprintf(t, "%.2f\t%.1f\t\n", r.add(name+"planned: bytes, critical", "bytes/step", bytes(planned, critical)).Median/1e6,
		r.add(name+"planned of the bytes of lrpp, through owners", "%", 100*c.ofBytes(planned, lrppOwners, kind)).Median)
}
