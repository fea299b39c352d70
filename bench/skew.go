package bench

import (
	"fmt"
	"io"
)

var skewBench = Bench{
	Name: "skew",
	Doc:  "rows and bytes that each cache mode moves, for flat to steep popularity of ids",
	Detail: "Counts as bench cache does, in tables of Criteo Kaggle's sizes. The ids have a popularity of 1/rank^a, or are " +
		"BagPipe's mixture " +
		"(SOSP 2023, fig. 18): with a probability one of the hottest 1 % of a table, each with the same chance, else any row. Nothing is timed.",
	Settings: append(cacheSettingsOf("50", "10"), choice("law", "power", []string{"power", "mixture"}, "popularity of ids")),
	Evidence: Counted,
	measure:  runSkew,
}

// skews are the power laws to count, from flat to steep.
var skews = []powerLaw{{k: 2}, {k: 4}, {k: 8}, {k: 8, above: true}, {k: 4, above: true}, {k: 2, above: true}, {k: 1, above: true}}

// skewCase is a law with the values by which its figures differ.
type skewCase struct {
	law   idLaw
	value string
}

// skewCases returns the laws to count, and the key of their cases.
func (o Options) skewCases() (key string, all []skewCase) {
	if o.text("law") == "mixture" {
		for _, hot := range mixtures {
			all = append(all, skewCase{mixture(float64(hot) / 100), fmt.Sprint(hot)})
		}
		return "hot", all
	}
	for _, law := range skews {
		all = append(all, skewCase{law, law.exponentText()})
	}
	return "exponent", all
}

func runSkew(out io.Writer, o Options) (*Report, error) {
	c := o.cacheSettings()
	tables, err := streamTables("criteo-kaggle", o.Tiny)
	if err != nil {
		return nil, err
	}
	report := o.newReport("none")
	report.writeHeader(out)
	key, cases := o.skewCases()
	fmt.Fprintf(out, "\n%s ids in tables like Criteo Kaggle's, %d trainers, batch %d, lookahead %d, %d steps; MB per step with %s\n\n",
		map[string]string{"exponent": "popularity 1/rank^exponent of", "hot": "hot % of the lookups draw one of 1 % of the rows:"}[key],
		c.trainers, c.batch, c.lookahead, c.steps, cacheOptimizers[0])
	t := table(out)
	defer t.Flush()
	fmt.Fprintf(t, "%s\tdistinct rows\tlrpp shared\tcritical\tnone MB\tlrpp reduced MB\tlrpp owners MB\tplanned "+
		"MB\tcritical\tplanned of lrpp owners %%\t\n", key)
	for _, x := range cases {
		o.mustRun()
		counted, err := countCache(newCacheStream(tables, c.trainers, drawIDs(x.law, tables, c.trainers, c.batch)), c)
		if err != nil {
			return nil, err
		}
		report.skewFigures(t, key, x.value, counted)
	}
	return report, nil
}

// skewFigures reports the counts of a law.
func (r *Report) skewFigures(t io.Writer, key, value string, c *cacheCounts) {
	add := func(name, unit, mode string, v float64) float64 {
		first := len(r.Figures)
		f := r.addFigure(name, unit, v)
		of := map[string]string{key: value}
		if mode != "" {
			of["mode"] = mode
		}
		r.setCase(first, of)
		return f.Median
	}
	lrpp := &c.modes[lrppOwners]
	fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t", value, add("distinct rows", "rows/step", "", c.distinct),
		add("rows", "rows/step", lrppOwners.String(), lrpp.rows[later]+lrpp.rows[critical]),
		add("rows, critical", "rows/step", lrppOwners.String(), lrpp.rows[critical]))
	kind := cacheOptimizers[0]
	for _, m := range []cacheMode{noCache, lrppReduced, lrppOwners, planned} {
		x := &c.modes[m]
		fmt.Fprintf(t, "%.2f\t", add("bytes", "bytes/step", m.String(), x.bytes(kind, later)+x.bytes(kind, critical))/1e6)
	}
	fmt.Fprintf(t, "%.2f\t%.1f\t\n", add("bytes, critical", "bytes/step", planned.String(), c.modes[planned].bytes(kind, critical))/1e6,
		add("planned of the bytes", "%", lrppOwners.String(), 100*c.ofBytes(planned, lrppOwners, kind)))
}
