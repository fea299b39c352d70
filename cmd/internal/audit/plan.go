package audit

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// Interval is a part of a run that is computed again: the steps after From, up to To.
type Interval struct {
	From, To int64
	// Start is the checkpoint of step From. Empty: the run's own start.
	Start string
	// End is the checkpoint of step To, empty if there is none.
	End string
}

// Steps is how many steps the interval has.
func (i Interval) Steps() int64 { return i.To - i.From }

// Range is the part of a run that is audited.
type Range struct {
	// The steps after From, up to To. To 0: up to the last one that the run has recorded.
	From, To int64
	// Sample is how many of the intervals are drawn. 0: all.
	Sample int
	// Seed draws them.
	Seed uint64
}

// PlanOf returns the intervals of a range, in the order of steps. The first one begins at the newest
// checkpoint at or before the range, or at the start of the run.
func PlanOf(r *Record, want Range) ([]Interval, error) {
	last := r.Last()
	to := want.To
	if to == 0 {
		to = last
	}
	states := slices.Sorted(maps.Keys(r.Checkpoints))
	if r.First == 0 {
		states = append([]int64{0}, states...)
	}
	switch {
	case last == r.First || len(states) == 0:
		return nil, errors.New("the run has recorded no commit and no checkpoint to compare with; " +
			"job.digests = true records the digest of every commit, and checkpoint.every saves checkpoints")
	case to > last:
		return nil, fmt.Errorf("--to %d: the last step that the run has recorded is %d", to, last)
	case want.From < 0 || want.From >= to:
		return nil, fmt.Errorf("--from %d: give a step from 0 to %d; the steps after it are audited", want.From, to-1)
	}
	begin, found := slices.BinarySearch(states, want.From)
	if !found {
		begin--
	}
	if begin < 0 {
		return nil, fmt.Errorf("--from %d: the run began after step %d, from a checkpoint of another folder, "+
			"and its own first one is of step %d; give a later step", want.From, r.First, states[0])
	}
	var all []Interval
	for i := begin; i < len(states) && states[i] < to; i++ {
		v := Interval{From: states[i], To: to, Start: r.Checkpoints[states[i]]}
		if i+1 < len(states) {
			v.To = min(to, states[i+1])
		}
		v.End = r.Checkpoints[v.To]
		if v.End != "" || len(r.within(v)) > 0 {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("--to %d: the run has recorded nothing between its checkpoint of step %d and that step; give a later one",
			to, states[begin])
	}
	if want.Sample > 0 && want.Sample < len(all) {
		rand.New(rand.NewPCG(want.Seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:want.Sample]
		slices.SortFunc(all, func(a, b Interval) int { return int(a.From - b.From) })
	}
	return all, nil
}

// Before is the interval that ends at a checkpoint, and whether there is one: the run can be computed
// up to it from an earlier state.
func (r *Record) Before(step int64) (v Interval, ok bool) {
	v = Interval{From: -1, To: step, End: r.Checkpoints[step]}
	if r.First == 0 {
		v.From = 0
	}
	for at, path := range r.Checkpoints {
		if at < step && at > v.From {
			v.From, v.Start = at, path
		}
	}
	return v, v.From >= 0 && v.From < step && v.End != ""
}

// within lists the steps of an interval after which the run recorded a digest, in order.
func (r *Record) within(v Interval) []int64 {
	var steps []int64
	for step := range r.Commits {
		if step > v.From && step <= v.To {
			steps = append(steps, step)
		}
	}
	if r.EndDigest != "" && r.End > v.From && r.End <= v.To && r.Commits[r.End] == "" {
		steps = append(steps, r.End)
	}
	slices.Sort(steps)
	return steps
}
