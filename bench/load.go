package bench

import (
	"fmt"
	"io"
	"slices"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/placement"
)

var loadBench = Bench{
	Name: "load",
	Doc: "how evenly the updates of rows and of parities fall on the ranks, counted on the synthetic Criteo Kaggle stream " +
		"(settings: ranks=N, batch=N, k=N, r=N, commit_every=N, commits=N)",
	Run: runLoad,
}

// loadSettings are the settings of a count.
type loadSettings struct{ ranks, batch, k, r, every, commits int }

func (o Options) loadSettings() (s loadSettings, err error) {
	if err := o.checkArgs("ranks", "batch", "k", "r", "commit_every", "commits"); err != nil {
		return s, err
	}
	fallback := loadSettings{ranks: 10, batch: 2048, k: 4, r: 1, every: 10, commits: 5}
	if o.Tiny {
		fallback = loadSettings{ranks: 5, batch: 64, k: 4, r: 1, every: 2, commits: 2}
	}
	for _, x := range []struct {
		key        string
		to         *int
		from, most int
	}{
		{"ranks", &s.ranks, fallback.ranks, mostRanks},
		{"batch", &s.batch, fallback.batch, maxSamples},
		{"k", &s.k, fallback.k, ec.MaxShards - 1},
		{"r", &s.r, fallback.r, ec.MaxShards - 1},
		{"commit_every", &s.every, fallback.every, 10_000},
		{"commits", &s.commits, fallback.commits, 10_000},
	} {
		if *x.to, err = o.number(x.key, x.from, 1, x.most); err != nil {
			return s, err
		}
	}
	return s, nil
}

// spreadRows is a way to give rows to ranks.
type spreadRows struct {
	name  string
	owner func(row int64) (owner int, slot int64)
}

// rowLoads is what each rank does in all: updates of its rows, the deltas that it
// folds into parities if every update sends one (as published), and if a commit
// sends one for each row that changed.
type rowLoads struct{ rows, perUpdate, perCommit []float64 }

func runLoad(out io.Writer, o Options) (*Report, error) {
	s, err := o.loadSettings()
	if err != nil {
		return nil, err
	}
	layout, err := ec.NewLayout(s.ranks, s.k, s.r)
	if err != nil {
		return nil, settingError("%v", err)
	}
	tables, err := cacheTables(o.Tiny)
	if err != nil {
		return nil, err
	}
	draw, err := criteoIDs(tables, s.ranks, s.batch)
	if err != nil {
		return nil, err
	}
	stream := newCacheStream(tables, s.ranks, draw)
	ways := waysToSpread(stream.place, s.ranks)
	loads := make([]rowLoads, len(ways))
	for i := range loads {
		loads[i] = rowLoads{make([]float64, s.ranks), make([]float64, s.ranks), make([]float64, s.ranks)}
	}
	for commit := range s.commits {
		if err := countEpoch(stream, layout, ways, loads, int64(commit*s.every), s.every); err != nil {
			return nil, err
		}
	}
	report := newReport("load", "none")
	report.header(out)
	fmt.Fprintf(out, "\nsynthetic Criteo Kaggle, %d ranks, batch %d, k = %d, r = %d, %d commits of %d steps\n\n", s.ranks, s.batch, s.k, s.r, s.commits, s.every)
	report.loads(out, ways, loads, float64(s.commits*s.every))
	return report, nil
}

// waysToSpread are what the ranks get here, every so many rows one, and ranges as
// parameter servers give them, where neighbours are popular together.
func waysToSpread(place placement.Map, ranks int) []spreadRows {
	here := func(row int64) (int, int64) { return int(row % int64(ranks)), row / int64(ranks) }
	each := (place.Rows() + int64(ranks) - 1) / int64(ranks)
	return []spreadRows{
		{"rows in turn", here},
		{"ranges", func(row int64) (int, int64) { return int(row / each), row % each }},
	}
}

// countEpoch adds what the steps of an epoch ask of the ranks.
func countEpoch(stream *cacheStream, layout ec.Layout, ways []spreadRows, loads []rowLoads, first int64, steps int) error {
	changed := map[int64]struct{}{}
	for t := range steps {
		if err := stream.step(first + int64(t)); err != nil {
			return err
		}
		for owner := range stream.owners {
			for _, slot := range stream.owners[owner].merged.Slots {
				row := stream.place.Global(owner, int64(slot))
				changed[row] = struct{}{}
				for i, w := range ways {
					at, slot := w.owner(row)
					loads[i].rows[at]++
					toParities(layout, at, slot, loads[i].perUpdate)
				}
			}
		}
	}
	for row := range changed { // whole numbers: their sum has no order
		for i, w := range ways {
			at, slot := w.owner(row)
			toParities(layout, at, slot, loads[i].perCommit)
		}
	}
	return nil
}

// toParities counts one delta of a row at each holder of its stripe's parities.
func toParities(layout ec.Layout, owner int, slot int64, folds []float64) {
	g := layout.GroupOf(owner)
	stripe, _ := g.Stripe(owner, slot)
	for p := range g.Parity {
		holder, _ := g.Holder(stripe, g.Data()+p)
		folds[holder]++
	}
}

func (r *Report) loads(out io.Writer, ways []spreadRows, loads []rowLoads, steps float64) {
	t := table(out)
	defer t.Flush()
	fmt.Fprint(t, "rows to ranks\tload\tper rank and step\tgreatest to least\tgreatest to mean\t\n")
	for i, w := range ways {
		l := loads[i]
		for _, x := range []struct {
			name string
			load []float64
		}{
			{"updates of rows", l.rows},
			{"and a delta each", plus(l.rows, l.perUpdate)},
			{"and deltas of commits", plus(l.rows, l.perCommit)},
		} {
			sum := 0.0
			for _, v := range x.load {
				sum += v
			}
			mean, most := sum/float64(len(x.load)), slices.Max(x.load)
			name := w.name + ": " + x.name
			fmt.Fprintf(t, "%s\t%s\t%.0f\t%.2f\t%.2f\t\n", w.name, x.name, r.add(name, "1/step", mean/steps).Median,
				r.add(name+", greatest to least", "", most/slices.Min(x.load)).Median, r.add(name+", greatest to mean", "", most/mean).Median)
		}
	}
}

func plus(a, b []float64) []float64 {
	sum := slices.Clone(a)
	for i, v := range b {
		sum[i] += v
	}
	return sum
}
