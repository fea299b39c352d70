package oracle

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// CapacityError reports that a step cannot be trained with caches of this capacity,
// even if every other row is evicted. The rows of the previous step and of the step itself
// must stay.
type CapacityError struct {
	Step         int64
	Trainer      int
	NeededRows   int // rows of this owner in this trainer's cache
	CapacityRows int
}

func (e *CapacityError) Error() string {
	return fmt.Sprintf("oracle: step %d: the cache of trainer %d holds %d rows of one owner but needs %d; raise cache.max_bytes or use smaller batches",
		e.Step, e.Trainer, e.CapacityRows, e.NeededRows)
}

// rowCount counts rows in the caches by holder + 1: the shared rows, then the exclusive
// rows of each trainer.
type rowCount []int

func (c rowCount) heldBy(trainer int) int { return c[Shared+1] + c[trainer+1] }

// addRows counts the rows, of a block of 64, whose bit is set.
func (c rowCount) addRows(holder []int16, rows, shared uint64) {
	c[Shared+1] += bits.OnesCount64(rows & shared)
	for own := rows &^ shared; own != 0; own &= own - 1 {
		c[holder[bits.TrailingZeros64(own)]+1]++
	}
}

// nominateCandidates makes candidates of the rows that stayed cached after step t-2 and
// are next used after step t. Rows used at step t or t-1 are in use and are never evicted
// to make room.
func (w *Window) nominateCandidates(s *step, t int64) {
	for i := range s.usedBefore {
		*w.uses.candidatesOf(s.first + uint32(64*i)) = 0
	}
	kept := &w.kept[t&1]
	for _, n := range *kept {
		if int32(n-s.endUse()) >= 0 {
			*w.uses.candidatesOf(n) |= 1 << (n & 63)
		}
	}
	*kept = (*kept)[:0]
}

// recordKept records which rows stay cached after step t, of its 64 uses from number n
// on.
func (w *Window) recordKept(n uint32, stays uint64, t int64) {
	for ; stays != 0; stays &= stays - 1 {
		next := *w.uses.nextOf(n + uint32(bits.TrailingZeros64(stays)))
		w.kept[t&1] = append(w.kept[t&1], next)
	}
}

// beginRoom starts the accounts of a step. Rows held at the previous step take room from
// the rows fetched, even if they are evicted after that step.
func (w *Window) beginRoom() {
	for q := range w.excess {
		w.excess[q] = w.held.heldBy(q) - w.o.CapacityRows
	}
	for i, n := range w.leaving {
		w.held[i] -= n
	}
	clear(w.leaving)
	clear(w.fetched)
}

// makeRoom chooses the rows to evict so that the rows fetched for step t fit.
func (w *Window) makeRoom(d *Decisions, t int64) error {
	over := 0 // number of trainers with too many rows
	for q := range w.excess {
		w.excess[q] += w.fetched.heldBy(q)
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
		slices.SortFunc(d.EvictForRoom, func(a, b Copy) int { return cmp.Compare(a.Slot, b.Slot) })
	}
	d.Held = w.o.CapacityRows + slices.Max(w.excess)
	return nil
}

// evictUntil evicts rows whose next use is at step v, by ascending slot. It evicts a row
// only if that helps a trainer with too many rows, and returns how many such trainers
// remain. Called from the furthest step down, this is Belady's rule. A row that it skips
// cannot help later, because excess only falls.
func (w *Window) evictUntil(d *Decisions, v int64, over int) int {
	s := w.stepAt(v)
	for begin := 0; begin < len(s.slots) && over > 0; begin += 64 {
		candidates := w.uses.candidatesOf(s.first + uint32(begin))
		for left := *candidates; left != 0 && over > 0; left &= left - 1 {
			i := begin + bits.TrailingZeros64(left)
			holder := w.holderOf(s, i)
			if holder != Shared && w.excess[holder] <= 0 {
				continue
			}
			d.EvictForRoom = append(d.EvictForRoom, Copy{Slot: s.slots[i], Holder: holder})
			over -= w.evictRow(holder)
			*w.uses.wordOf(s.before[i]) &^= 1 << (s.before[i] & 31)
			*candidates &^= left & -left
		}
	}
	return over
}

// evictRow removes a row from the accounts. It returns the number of trainers that now
// have no excess row.
func (w *Window) evictRow(holder int16) (enough int) {
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

// adaptLookahead changes the lookahead, see WindowOptions.Auto.
func (w *Window) adaptLookahead(roomWasMade bool) {
	switch {
	case !w.o.Auto:
	case roomWasMade:
		w.lookahead = max(1, w.lookahead-1)
	default:
		for q, x := range w.excess {
			if w.o.CapacityRows > 0 && x+w.fetched.heldBy(q) > 0 {
				return
			}
		}
		w.lookahead = min(w.o.Lookahead, w.lookahead+1)
	}
}
