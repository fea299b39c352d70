package bench

import (
	"errors"
	"math"

	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/oracle"
)

// cacheStream yields the rows that the trainers of a job need from the owners, step by step. Every
// rank is both.
type cacheStream struct {
	ranks  int
	place  placement.Map
	draw   drawSlice
	ids    [][]uint32
	plans  []oracle.Plan
	owners []wantedRows
}

// wantedRows holds the rows that all trainers need from one owner at a step.
type wantedRows struct {
	lists   []int32 // of each trainer in turn
	perRank []int
	merged  oracle.Merged
}

func newCacheStream(tables []int64, ranks int, draw drawSlice) *cacheStream {
	s := &cacheStream{ranks: ranks, place: placement.New(tables, ranks), draw: draw,
		ids: make([][]uint32, ranks), plans: make([]oracle.Plan, ranks), owners: make([]wantedRows, ranks)}
	for o := range s.owners {
		s.owners[o].perRank = make([]int, ranks)
	}
	return s
}

// planStep plans step t, counted from 0, and stores the rows needed from each owner in owners.
func (s *cacheStream) planStep(t int64) error {
	failed := make([]error, s.ranks)
	together(s.ranks, func(r int) {
		if s.ids[r], failed[r] = s.draw(t, r, s.ids[r]); failed[r] == nil {
			s.plans[r].Fill(s.place, oracle.Lookups{IDs: s.ids[r]})
		}
	})
	if err := errors.Join(failed...); err != nil {
		return err
	}
	together(s.ranks, func(o int) { s.owners[o].fillFrom(s.plans, o) })
	return nil
}

func (w *wantedRows) fillFrom(plans []oracle.Plan, owner int) {
	w.lists = w.lists[:0]
	for r := range plans {
		first := 0
		for _, n := range plans[r].PerOwner[:owner] {
			first += n
		}
		w.perRank[r] = plans[r].PerOwner[owner]
		w.lists = append(w.lists, plans[r].Slots[first:first+w.perRank[r]]...)
	}
	w.merged.Merge(w.lists, w.perRank)
}

// powerLaw draws ranks of rows, from 0 for the most popular. Their popularity is 1/rank^a, where a is
// 1 - 1/k, or with above 1 + 1/k. k is a power of two, so that the inverse distribution function
// needs only products and square roots.
type powerLaw struct {
	k     int
	above bool
}

// exponent returns a.
func (p powerLaw) exponent() float64 {
	if p.above {
		return 1 + 1/float64(p.k)
	}
	return 1 - 1/float64(p.k)
}

// rank maps u, uniform in [0, 1), to a rank below rows.
func (p powerLaw) rank(u, rows float64) uint32 {
	x := u
	if p.above {
		root := rows + 1
		for n := p.k; n > 1; n /= 2 {
			root = math.Sqrt(root)
		}
		x = 1 - u*(1-1/root)
	}
	for n := p.k; n > 1; n /= 2 {
		x *= x
	}
	if p.above {
		x = 1/x - 1
	} else {
		x *= rows
	}
	return uint32(min(x, rows-1))
}

// ids draws slices with this law in every table.
func (p powerLaw) ids(tables []int64, ranks, batch int) drawSlice {
	return drawIDs(p, tables, ranks, batch)
}
