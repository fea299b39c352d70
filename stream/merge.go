package stream

import (
	"slices"

	"github.com/ecrec/ecrec/lineage"
)

// Cut is the epochs of all ranks up to one step.
type Cut struct {
	Lineage lineage.ID
	Step    int64
	Epochs  []*Epoch // by rank
	Merged  int      // markers that are skipped, since not all ranks have them
}

// Merge brings the epochs of all partitions to cuts. It is pure.
type Merge struct {
	waiting [][]*Epoch // by rank, oldest first: epochs behind the last cut
}

// NewMerge merges the epochs of a number of ranks.
func NewMerge(ranks int) *Merge { return &Merge{waiting: make([][]*Epoch, ranks)} }

// Add adds the next epoch of a rank.
func (m *Merge) Add(e *Epoch) { m.waiting[e.Rank] = append(m.waiting[e.Rank], e) }

// Lacks reports whether the next cut needs a further epoch of a rank.
func (m *Merge) Lacks(rank int) bool { return m.find() == nil && m.lags(rank) }

// lags reports whether a rank's epochs end before another's.
func (m *Merge) lags(rank int) bool {
	newest := func(list []*Epoch) *Epoch {
		if len(list) == 0 {
			return nil
		}
		return list[len(list)-1]
	}
	mine := newest(m.waiting[rank])
	if mine == nil {
		return true
	}
	for _, list := range m.waiting {
		if x := newest(list); x != nil && (x.Lineage != mine.Lineage || x.To > mine.To) {
			return true
		}
	}
	return false
}

// find returns, for each rank, how many epochs the next cut has; nil: there is none yet.
func (m *Merge) find() []int {
	counts := make([]int, len(m.waiting))
	for _, e := range m.waiting[0] {
		counts[0]++
		complete := true
		for rank := 1; rank < len(m.waiting) && complete; rank++ {
			at := slices.IndexFunc(m.waiting[rank], func(x *Epoch) bool { return x.Lineage == e.Lineage && x.To == e.To })
			counts[rank], complete = at+1, at >= 0
		}
		if complete {
			return counts
		}
	}
	return nil
}

// Next returns the next cut, nil if epochs are missing.
func (m *Merge) Next() *Cut {
	counts := m.find()
	if counts == nil {
		return nil
	}
	c := &Cut{Merged: counts[0] - 1}
	for rank, n := range counts {
		var all *Epoch
		for _, e := range m.waiting[rank][:n] {
			all = all.merge(e)
		}
		m.waiting[rank] = slices.Delete(m.waiting[rank], 0, n)
		c.Epochs = append(c.Epochs, all)
	}
	c.Lineage, c.Step = c.Epochs[0].Lineage, c.Epochs[0].To
	return c
}
