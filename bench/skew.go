package bench

import (
	"fmt"
	"io"
)

var skewBench = Bench{
	Name: "skew",
	Doc:  "rows and bytes that each cache mode moves, for flat to steep popularity of ids",
	Detail: "Counts as bench cache does, in tables of Criteo Kaggle's sizes, with ids of popularity 1/rank^a. " +
		"Nothing is timed.",
	Settings: cacheSettingsOf("50", "10"),
	Evidence: Counted,
	measure:  runSkew,
}

// skews are the laws to count, from flat to steep.
var skews = []powerLaw{{k: 2}, {k: 4}, {k: 8}, {k: 8, above: true}, {k: 4, above: true}, {k: 2, above: true}, {k: 1, above: true}}

func runSkew(out io.Writer, o Options) (*Report, error) {
	c := o.cacheSettings()
	tables, err := cacheTables(o.Tiny)
	if err != nil {
		return nil, err
	}
	report := o.newReport("none")
	report.writeHeader(out)
	fmt.Fprintf(out, "\nids of popularity 1/rank^a in tables like Criteo Kaggle's, %d trainers, batch %d, lookahead %d, %d steps; MB per step with %s\n\n",
		c.trainers, c.batch, c.lookahead, c.steps, cacheOptimizers[0])
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
		r.addFigure(name+"distinct rows per batch", "rows", c.distinct).Median,
		r.addFigure(name+"lrpp: distinct rows synchronised", "rows/step", lrpp.rows[later]+lrpp.rows[critical]).Median,
		r.addFigure(name+"lrpp: distinct rows synchronised, critical", "rows/step", lrpp.rows[critical]).Median)
	kind := cacheOptimizers[0]
	bytes := func(m cacheMode, paths ...int) float64 {
		sum := 0.0
		for _, p := range paths {
			sum += c.modes[m].bytes(kind, p)
		}
		return sum
	}
	for _, m := range []cacheMode{noCache, lrppReduced, lrppOwners, planned} {
		fmt.Fprintf(t, "%.2f\t", r.addFigure(fmt.Sprintf("%s%v: bytes", name, m), "bytes/step", bytes(m, later, critical)).Median/1e6)
	}
	fmt.Fprintf(t, "%.2f\t%.1f\t\n", r.addFigure(name+"planned: bytes, critical", "bytes/step", bytes(planned, critical)).Median/1e6,
		r.addFigure(name+"planned of the bytes of lrpp, through owners", "%", 100*c.ofBytes(planned, lrppOwners, kind)).Median)
}
