package paper

import (
	"slices"
	"strings"

	"github.com/ecrec/ecrec/bench"
)

// dataRuns counts the training data of a config as the given run counts a stream. It is empty without a config.
func dataRuns(config string, like Run) []Run {
	if config == "" {
		return nil
	}
	like.Args = append([]string{"data=" + config}, slices.DeleteFunc(slices.Clone(like.Args), func(a string) bool {
		return strings.HasPrefix(a, "stream=") || strings.HasPrefix(a, "tables=")
	})...)
	return []Run{like}
}

// withData returns a drawing that also counts the training data of a config, if there is one. Its report is the last one.
func withData(config string, d Drawing) Drawing {
	runs := d.Runs
	d.Runs = func(size Size) []Run { return append(runs(size), dataRuns(config, runs(size)[0])...) }
	return d
}

// nameOfData is the name of a series of a user's data.
func nameOfData(r *bench.Report) string { return "data of " + r.Settings["data"] }

// fiveNumbers draws the numbers of BagPipe's data to which the synthetic ids are fitted, beside those of a user's data.
func fiveNumbers(config string) Drawing {
	return Drawing{ID: "B-five",
		Runs: func(size Size) (runs []Run) {
			curves, caches := curveRuns(size)[:2], cacheRunsOf(size)
			return slices.Concat(curves, caches, dataRuns(config, curves[0]), dataRuns(config, caches[0]))
		},
		Draw: drawFiveNumbers}
}

func drawFiveNumbers(f *Figure, reports []*bench.Report) error {
	for i, x := range countedStreams {
		if err := f.addFiveNumbers(x.name, reports[i], reports[2+i]); err != nil {
			return err
		}
	}
	if len(reports) > 4 {
		if err := f.addFiveNumbers(nameOfData(reports[4]), reports[4], reports[5]); err != nil {
			return err
		}
	}
	p := f.points("bursts")
	f.Checks = []Check{
		near("bursts: 65,000 distinct rows in a batch, within 6 %", p[0], 65_000, 0.06),
		near("bursts: the hottest 0.1 % of the rows have 90 % of the lookups, within 4 %", p[1], 90, 0.04),
		within("bursts: 10 to 15 % of the rows of a batch are among these", p[2], 10, 15),
		near("bursts: one trainer alone uses 25 % of the rows while they are cached, within 6 %", p[3], 25, 0.06),
		near("bursts: 22,700 critical rows, within 6 %", p[4], 22_700, 0.06),
	}
	f.Params = append([]Param{{"samples whose lookups are counted", "all", reports[0].Settings["samples"]}}, cacheParams(reports[2])...)
	f.Notes = append(f.Notes, countNote, "`ecrec bench report --data CONFIG` adds the numbers of the training data of a run's config, here and "+
		"in B3 and B4. They are no checks: other data have other numbers.")
	return nil
}

// addFiveNumbers adds a series of the five numbers, from a report of bench popularity and one of bench cache.
func (f *Figure) addFiveNumbers(name string, popularity, cache *bench.Report) error {
	batch := cache.Settings["batch"]
	distinct, kind, err := point(cache, 0, "distinct rows of a batch", "distinct rows")
	if err != nil {
		return err
	}
	hot, _, err := point(popularity, 1, "lookups of the hottest 0.1 %", "lookups", "hottest", "0.1")
	if err != nil {
		return err
	}
	cached, _, err := point(popularity, 2, "rows of a batch among these", "in the cache", "batch", batchOf(popularity, batch))
	if err != nil {
		return err
	}
	shared, _, err := point(cache, 0, "", "rows", "mode", lrppMode)
	if err != nil {
		return err
	}
	critical, _, err := point(cache, 4, "critical rows", "rows, critical", "mode", lrppMode)
	if err != nil {
		return err
	}
	share := over(shared, distinct)
	alone := share
	alone.X, alone.Label, alone.Unit = 3, "rows that one trainer alone uses", "%"
	alone.Y, alone.Least, alone.Most = 100*(1-share.Y), 100*(1-share.Most), 100*(1-share.Least)
	hot.Unit, cached.Unit = "%", "%"
	f.Series = append(f.Series, Series{System: name, Kind: kind, Points: []Point{distinct, hot, cached, alone, critical}})
	return nil
}

// batchOf returns the batch of a report of bench popularity that has the size of another one's, or its largest one.
func batchOf(r *bench.Report, batch string) string {
	list := strings.Split(r.Settings["batch"], ",")
	if slices.Contains(list, batch) {
		return batch
	}
	return list[len(list)-1]
}
