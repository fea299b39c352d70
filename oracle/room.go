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

// count counts rows in the caches by holder + 1: those of all trainers, then those
// that each has for itself alone.
type count []int

func (c count) of(trainer int) int { return c[Shared+1] + c[trainer+1] }

// add counts those of 64 rows that have a bit.
func (c count) add(holder []int16, rows, shared uint64) {
	c[Shared+1] += bits.OnesCount64(rows & shared)
	for own := rows &^ shared; own != 0; own &= own - 1 {
		c[holder[bits.TrailingZeros64(own)]+1]++
	}
}

// nominate makes candidates of the rows that stayed cached after step t-2 and are
// used after step t: rows of step t and of the one before are in use, and never
// make room.
func (w *Window) nominate(s *step, t int64) {
	for i := range s.usedBefore {
		*w.uses.candidatesOf(s.first + uint32(64*i)) = 0
	}
	kept := &w.kept[t&1]
	for _, n := range *kept {
		if int32(n-s.end()) >= 0 {
			*w.uses.candidatesOf(n) |= 1 << (n & 63)
		}
	}
	*kept = (*kept)[:0]
}

// keep notes which of 64 uses of step t, from number n on, rows stay cached after.
func (w *Window) keep(n uint32, stays uint64, t int64) {
	for ; stays != 0; stays &= stays - 1 {
		next := *w.uses.nextOf(n + uint32(bits.TrailingZeros64(stays)))
		w.kept[t&1] = append(w.kept[t&1], next)
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
	for begin := 0; begin < len(s.slots) && over > 0; begin += 64 {
		candidates := w.uses.candidatesOf(s.first + uint32(begin))
		for left := *candidates; left != 0 && over > 0; left &= left - 1 {
			i := begin + bits.TrailingZeros64(left)
			holder := w.holder(s, i)
			if holder != Shared && w.excess[holder] <= 0 {
				continue
			}
			d.Room = append(d.Room, Copy{Slot: s.slots[i], Holder: holder})
			over -= w.evict(holder)
			*w.uses.of(s.before[i]) &^= 1 << (s.before[i] & 31)
			*candidates &^= left & -left
		}
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
