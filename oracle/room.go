package oracle

import (
	"cmp"
	"fmt"
	"math/bits"
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

// count counts rows in the caches of all trainers.
type count struct {
	shared int
	own    []int // exclusive rows of each trainer
}

func (c *count) add(holder int16, n int) {
	if holder == Shared {
		c.shared += n
	} else {
		c.own[holder] += n
	}
}

func (c *count) of(trainer int) int { return c.shared + c.own[trainer] }

func (c *count) reset() {
	c.shared = 0
	clear(c.own)
}

// beginRoom starts the accounts of a step: what was held at the step before is in
// the way of what is fetched, whether it leaves after that step or not.
func (w *Window) beginRoom() {
	for q := range w.excess {
		w.excess[q] = w.held.of(q) - w.o.CapacityRows
		w.held.own[q] -= w.leaving.own[q]
	}
	w.held.shared -= w.leaving.shared
	w.leaving.reset()
	w.fetched.reset()
}

// makeRoom decides which rows leave so that what step t fetches fits.
func (w *Window) makeRoom(d *Decisions, t int64) error {
	over := 0 // trainers with too many rows
	for q := range w.excess {
		w.excess[q] += w.fetched.of(q)
		w.held.own[q] += w.fetched.own[q]
		if w.excess[q] > 0 {
			over++
		}
	}
	w.held.shared += w.fetched.shared
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
// over once helps nobody later, because excess only falls. Rows that the step
// before the planned one used are in use.
func (w *Window) evictUntil(d *Decisions, v int64, over int) int {
	s := w.at(v)
	for k := 0; k < len(s.cached) && s.cachedRows > 0; k++ {
		for word := s.cached[k]; word != 0; word &= word - 1 {
			i := k<<6 + bits.TrailingZeros64(word)
			u := w.use(s.first + uint32(i))
			if uint16(d.Step)-u.heldSince <= 1 || u.holder != Shared && w.excess[u.holder] <= 0 {
				continue
			}
			d.Room = append(d.Room, Copy{Slot: s.slots[i], Holder: u.holder})
			over -= w.evict(u.holder)
			u.holder = notCached
			s.cached[k] &^= word & -word
			s.cachedRows--
			if over == 0 {
				return 0
			}
		}
	}
	return over
}

// evict takes a row out of the accounts and returns for how many trainers it was
// the last one too many.
func (w *Window) evict(holder int16) (enough int) {
	w.held.add(holder, -1)
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
