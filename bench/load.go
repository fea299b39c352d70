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
	Doc:  "balance of row and parity updates over the ranks",
	Detail: "Counts updates exactly on a stream of ids, alone and with the deltas that a rank folds into parities: one " +
		"for each update, as published, or one for each row that a commit changed. Nothing is timed.",
	Settings: append([]Setting{
		number("ranks", "10", 1, mostRanks, "number of ranks").orTiny("5"),
		number("batch", "2048", 1, maxSamples, "samples of a step, over all ranks").orTiny("64"),
		number("k", "4", 1, ec.MaxShards-1, "data rows in a stripe"),
		number("r", "1", 1, ec.MaxShards-1, "parity rows in a stripe"),
		number("commit_every", "10", 1, 10_000, "steps between commits").orTiny("2"),
		number("commits", "5", 1, 10_000, "commits to count").orTiny("2"),
	}, streamSettings()...),
	Evidence: Counted,
	measure:  runLoad,
}

// loadSettings are the settings of a count.
type loadSettings struct{ ranks, batch, k, r, every, commits int }

func (o Options) loadSettings() loadSettings {
	return loadSettings{ranks: o.number("ranks"), batch: o.number("batch"), k: o.number("k"), r: o.number("r"),
		every: o.number("commit_every"), commits: o.number("commits")}
}

// spreadRows is a way to assign rows to ranks.
type spreadRows struct {
	name  string
	owner func(row int64) (owner int, slot int64)
}

// rowLoads counts the work of each rank: updates of its rows; deltas that it folds into parities if
// every update sends one, as published; and those if a commit sends one for each changed row.
type rowLoads struct{ rows, perUpdate, perCommit []float64 }

func runLoad(out io.Writer, o Options) (*Report, error) {
	s := o.loadSettings()
	layout, err := ec.NewLayout(s.ranks, s.k, s.r)
	if err != nil {
		return nil, settingError("%v", err)
	}
	ids, err := o.openStream()
	if err != nil {
		return nil, err
	}
	defer ids.close()
	if err := ids.checkLength(int64(s.commits*s.every), s.batch); err != nil {
		return nil, err
	}
	stream := newCacheStream(ids.tables, s.ranks, ids.draw(s.ranks, s.batch))
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
	report := o.newReport("none")
	report.writeHeader(out)
	fmt.Fprintf(out, "\n%s, %d ranks, batch %d, k = %d, r = %d, %d commits of %d steps\n\n", ids.name, s.ranks,
		s.batch, s.k, s.r, s.commits, s.every)
	report.addLoads(out, ways, loads, float64(s.commits*s.every))
	return report, nil
}

// waysToSpread returns the assignment of ecrec, rows in turn, and that of parameter servers, ranges
// of rows. Neighbouring rows have similar popularity.
func waysToSpread(place placement.Map, ranks int) []spreadRows {
	here := func(row int64) (int, int64) { return int(row % int64(ranks)), row / int64(ranks) }
	each := (place.Rows() + int64(ranks) - 1) / int64(ranks)
	return []spreadRows{
		{"in turn", here},
		{"ranges", func(row int64) (int, int64) { return int(row / each), row % each }},
	}
}

// countEpoch adds the work of the steps of an epoch.
func countEpoch(stream *cacheStream, layout ec.Layout, ways []spreadRows, loads []rowLoads, first int64, steps int) error {
	changed := map[int64]struct{}{}
	for t := range steps {
		if err := stream.planStep(first + int64(t)); err != nil {
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
	for row := range changed { // the sum of integers does not depend on the order
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

// addLoads adds the loads, in the cases of the assignment of rows and of the deltas that are counted with the updates.
func (r *Report) addLoads(out io.Writer, ways []spreadRows, loads []rowLoads, steps float64) {
	t := table(out)
	defer t.Flush()
	fmt.Fprint(t, "rows to ranks\tdeltas\tper rank and step\tgreatest to least\tgreatest to mean\t\n")
	for i, w := range ways {
		l := loads[i]
		for _, x := range []struct {
			deltas string
			load   []float64
		}{
			{"none", l.rows},
			{"each update", plus(l.rows, l.perUpdate)},
			{"each commit", plus(l.rows, l.perCommit)},
		} {
			sum := 0.0
			for _, v := range x.load {
				sum += v
			}
			mean, most := sum/float64(len(x.load)), slices.Max(x.load)
			first := len(r.Figures)
			fmt.Fprintf(t, "%s\t%s\t%.0f\t%.2f\t%.2f\t\n", w.name, x.deltas, r.addFigure("updates", "1/step", mean/steps).Median,
				r.addFigure("greatest to least", ratioUnit, most/slices.Min(x.load)).Median,
				r.addFigure("greatest to mean", ratioUnit, most/mean).Median)
			r.setCase(first, map[string]string{"rows": w.name, "deltas": x.deltas})
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
