package oracle

import (
	"cmp"
	"fmt"
	"slices"
)

// CapacityError says that a step cannot be trained with caches so small, whatever
// leaves: the rows in use at the step before and those it uses itself stay.
type CapacityError struct {
	Step         int64
	Trainer      int
	NeededRows   int // of this owner, in this trainer's cache
	CapacityRows int
}

func (e *CapacityError) Error() string {
	return fmt.Sprintf("oracle: step %d: the cache of trainer %d has room for %d rows of one owner and needs %d; raise cache.max_bytes or make batches smaller",
		e.Step, e.Trainer, e.CapacityRows, e.NeededRows)
}

// count counts rows in the caches by holder + 1: those of all trainers, then those
// that each has for itself alone.
type count []int

func (c count) of(trainer int) int { return c[Shared+1] + c[trainer+1] }

// keep notes the rows of step t that stay cached. They may leave to make room from
// two steps later on, if they are not used by then: rows of the step that is planned
// and of the one before are in use.
func (w *Window) keep(s *step, t int64) {
	for n, ok := w.uses.candidate(s.first, s.end()); ok; n, ok = w.uses.candidate(n+1, s.end()) {
		w.uses.setCandidate(n, false)
	}
	kept := &w.kept[t&1]
	for _, n := range *kept {
		if int32(n-s.end()) >= 0 {
			w.uses.setCandidate(n, true)
		}
	}
	*kept = (*kept)[:0]
	for i, f := range w.fates {
		if f&(evictNow|evictLater) == 0 {
			n := s.first + uint32(i)
			*kept = append(*kept, n+w.uses.links[w.uses.at(n)].gap())
		}
	}
}

// beginRoom starts the accounts of a step: what was held at the step before is in
// the way of what is fetched, whether it leaves after that step or not.
func (w *Window) beginRoom() {
	for q := range w.excess {
		w.excess[q] = w.held.of(q) - w.o.CapacityRows
	}
	for i, n := range w.leaving {
		w.held[i] -= n
	}
	clear(w.leaving)
	clear(w.fetched)
}

// makeRoom decides which rows leave so that what step t fetches fits.
func (w *Window) makeRoom(d *Decisions, t int64) error {
	over := 0 // trainers with too many rows
	for q := range w.excess {
		w.excess[q] += w.fetched.of(q)
		if w.excess[q] > 0 {
			over++
		}
	}
	for i, n := range w.fetched {
		w.held[i] += n
	}
	if w.o.CapacityRows > 0 {
		for v := w.admitted - 1; v > t && over > 0; v-- {
			over = w.evictUntil(d, v, over)
		}
		if over > 0 {
			return w.capacityError(t)
		}
		slices.SortFunc(d.Room, func(a, b Copy) int { return cmp.Compare(a.Slot, b.Slot) })
	}
	d.Held = w.o.CapacityRows + slices.Max(w.excess)
	return nil
}

// evictUntil evicts rows whose next use is at step v, by ascending slot, each
// where it helps a trainer that has too many, and returns how many trainers are
// left. Called from the furthest step down, this is Belady's rule; what it passes
// over once helps nobody later, because excess only falls.
func (w *Window) evictUntil(d *Decisions, v int64, over int) int {
	s := w.at(v)
	for n, ok := w.uses.candidate(s.first, s.end()); ok && over > 0; n, ok = w.uses.candidate(n+1, s.end()) {
		i := int(n - s.first)
		state := &w.uses.states[w.uses.at(n)]
		holder := s.holder(i, *state == shared)
		if holder != Shared && w.excess[holder] <= 0 {
			continue
		}
		d.Room = append(d.Room, Copy{Slot: s.slots[i], Holder: holder})
		over -= w.evict(holder)
		*state = notCached
		w.uses.setCandidate(n, false)
	}
	return over
}

// evict takes a row out of the accounts and returns for how many trainers it was
// the last one too many.
func (w *Window) evict(holder int16) (enough int) {
	w.held[holder+1]--
	first, last := int(holder), int(holder)
	if holder == Shared {
		first, last = 0, len(w.excess)-1
	}
	for q := first; q <= last; q++ {
		if w.excess[q]--; w.excess[q] == 0 {
			enough++
		}
	}
	return enough
}

func (w *Window) capacityError(t int64) error {
	q := 0
	for other, x := range w.excess {
		if x > w.excess[q] {
			q = other
		}
	}
	return &CapacityError{Step: t, Trainer: q, NeededRows: w.o.CapacityRows + w.excess[q], CapacityRows: w.o.CapacityRows}
}

// adapt changes the lookahead, see WindowOptions.Auto.
func (w *Window) adapt(roomWasMade bool) {
	switch {
	case !w.o.Auto:
	case roomWasMade:
		w.lookahead = max(1, w.lookahead-1)
	default:
		for q, x := range w.excess {
			if w.o.CapacityRows > 0 && x+w.fetched.of(q) > 0 {
				return
			}
		}
		w.lookahead = min(w.o.Lookahead, w.lookahead+1)
	}
}
