package oracle

import (
	"fmt"
	"math/bits"
)

// Decisions lists what happens to the rows of one owner around one step. Its slices are
// valid until the next call of the window's Next. All lists ascend.
//
// In order of time, while step t-1 computes: the delayed work of step t-2 (SyncLater,
// then EvictLater), EvictForRoom of t, and FetchEarly of t. After step t-1: its updates
// of exclusive rows, SyncNow, EvictNow, and FetchCritical of t.
type Decisions struct {
	Step int64
	// Lookahead is the number of later steps that the plan has seen.
	Lookahead int

	// Slots lists the rows that the step uses. By[Start[u]:Start[u+1]] are the trainers
	// that use row u: they read it, and their gradients are summed.
	Slots, Start []int32
	By           []uint16
	// Holder is, for each row, the only trainer that holds, reads and updates it, or
	// Shared: all trainers hold a copy and apply the sum of the gradients.
	Holder []int16

	// The remaining fields are lists of positions in Slots, except EvictForRoom.

	// FetchEarly and FetchCritical are the rows that the owner sends to the holders
	// before the step. Critical rows are also used at step t-1 and are written back only
	// after it. Early rows may be sent while step t-1 computes.
	FetchEarly, FetchCritical []int32
	// SyncNow and SyncLater are the shared rows. SyncNow are those that any trainer uses
	// again at step t+1. SyncLater are the others, whose sums may be applied to the
	// copies while step t+1 computes. Evicted rows are in SyncLater unless step t+1 uses
	// them, because their last sums must be applied too.
	SyncNow, SyncLater []int32
	// EvictNow and EvictLater are the rows evicted after the step, all of them dirty. The
	// holders drop them, and the trainer that Writer names sends the value to the owner.
	// EvictNow is written back at once, because step t+1 fetches the row again.
	// EvictLater is written back while step t+1 computes.
	EvictNow, EvictLater []int32

	// EvictForRoom lists rows that are evicted to make room before any fetch. Neither
	// this step nor the previous one uses them. All are dirty and are written back.
	EvictForRoom []Copy
	// Held is the greatest number of rows in any trainer's cache around this step. It
	// counts the rows held at step t-1, without EvictForRoom, and all rows fetched.
	Held int
}

// Writer returns the trainer that writes a row back. An exclusive row is written back by
// its holder. A shared row is written by the owner itself if the owner trains, so that
// nothing is sent, and otherwise by trainer 0.
func (w *Window) Writer(holder int) int {
	if holder == Shared {
		return max(0, w.o.Self)
	}
	return holder
}

// Next plans the oldest step that has not been planned. The window must be Ready. The
// only error is a *CapacityError, after which the window cannot be used.
func (w *Window) Next(d *Decisions) error {
	if !w.Ready() {
		panic(fmt.Sprintf("oracle: Next of step %d after Add of %d steps, with a lookahead of %d", w.next, w.added, w.lookahead))
	}
	t := w.next
	for w.admitted < w.added && w.admitted <= t+int64(w.lookahead) {
		w.admitStep()
	}
	s := w.stepAt(t)
	d.Step, d.Lookahead = t, int(w.admitted-1-t)
	d.Slots, d.Start, d.By = s.slots, s.start, s.by
	for _, list := range []*[]int32{&d.FetchEarly, &d.FetchCritical, &d.SyncNow, &d.SyncLater, &d.EvictNow, &d.EvictLater} {
		*list = (*list)[:0]
	}
	d.EvictForRoom = d.EvictForRoom[:0]

	w.beginRoom()
	w.decideRows(d, s, t)
	if err := w.makeRoom(d, t); err != nil {
		return err
	}
	w.adaptLookahead(len(d.EvictForRoom) > 0)
	w.next++
	return nil
}

// decideRows decides about the rows of step t, 64 at a time. The segment of a row begins
// at a use if the row is not cached. It ends at a use if there is no later one, or if
// another trainer than its only holder makes the next one.
func (w *Window) decideRows(d *Decisions, s *step, t int64) {
	words := len(s.usedBefore)
	w.cached, w.shared, w.undecided = resize(w.cached, words), resize(w.shared, words), w.undecided[:0]
	w.prefetchUses(s.before[:min(64, len(s.before))])
	for k := range words {
		n, rows := s.blockUses(k)
		w.prefetchUses(s.before[64*k+rows:][:min(64, len(s.before)-64*k-rows)])
		again, same := w.uses.bitsOf(n)
		cached, shared := w.uses.stateAt(s.before[64*k:][:rows], n)
		fetched := ^uint64(0) >> (64 - rows) &^ cached
		w.cached[k], w.shared[k] = cached, shared&cached|fetched&(^wantedByOne(s.solo[64*k:][:rows])|again&^same)
		w.undecided = appendBits(w.undecided, int32(64*k), fetched&same)
	}
	w.shareLater(s.slots, uint16(t))
	if w.o.CapacityRows > 0 {
		w.nominateCandidates(s, t)
	}
	d.Holder = resize(d.Holder, len(s.slots))
	for k := range words {
		w.listBlock(d, s, k)
	}
}

// blockUses returns the number of the first of uses 64k, 64k+1 ... of the step, and how
// many they are, at most 64.
func (s *step) blockUses(k int) (n uint32, rows int) {
	return s.first + uint32(64*k), min(64, len(s.slots)-64*k)
}

// shareLater makes the undecided rows shared that another trainer uses later. All of them
// are looked up in one loop, so that cache misses overlap.
//
//go:noinline
func (w *Window) shareLater(slots []int32, t uint16) {
	of, shared := w.newest.of, w.shared
	for _, i := range w.undecided {
		since := newestUse(of[slots[i]]).since()
		shared[i>>6] |= uint64((t-since)>>15) << (i & 63) // the sign bit: since > t
	}
}

// listBlock lists the decisions about 64 rows.
func (w *Window) listBlock(d *Decisions, s *step, k int) {
	n, rows := s.blockUses(k)
	all := ^uint64(0) >> (64 - rows)
	again, same := w.uses.bitsOf(n)
	shared, fetched := w.shared[k], all&^w.cached[k]
	stays := again & (shared | same)
	leaves := all &^ stays
	w.uses.setBits(n, stays, shared)
	holder := d.Holder[64*k:][:rows]
	holders(holder, s.solo[64*k:], shared)
	w.fetched.addRows(holder, fetched, shared)
	w.leaving.addRows(holder, leaves, shared)
	if w.o.CapacityRows > 0 {
		w.recordKept(n, stays, d.Step)
	}

	first, before, after := int32(64*k), s.usedBefore[k], s.usedAfter[k]
	d.FetchEarly = appendBits(d.FetchEarly, first, fetched&^before)
	d.FetchCritical = appendBits(d.FetchCritical, first, fetched&before)
	d.SyncNow = appendBits(d.SyncNow, first, shared&after)
	d.SyncLater = appendBits(d.SyncLater, first, shared&^after)
	d.EvictNow = appendBits(d.EvictNow, first, leaves&after)
	d.EvictLater = appendBits(d.EvictLater, first, leaves&^after)
}

// wantedByOne has a bit for each row that exactly one trainer uses.
//
//go:noinline
func wantedByOne(solo []uint16) (rows uint64) {
	for i, q := range solo {
		rows |= uint64(-uint32(q)>>31) << (i & 63)
	}
	return rows
}

// stateAt returns the state of the rows of uses n, n+1 ... as the plans of the previous
// uses left it: a bit for each row that stayed cached, and one for each that is shared.
//
//go:noinline
func (x *uses) stateAt(before []uint32, n uint32) (stays, shared uint64) {
	state := x.state
	var words [2]uint64
	for i, b := range before {
		bits := state[int(b>>5)&(len(state)-1)] >> (b & 31) & (1 | upper) & -uint64((b-n)>>31)
		words[i>>5&1] |= bits << (i & 31)
		n++
	}
	return words[0]&(1<<32-1) | words[1]<<32, words[0]>>32 | words[1]>>32<<32
}

// holders sets the holder of each row.
//
//go:noinline
func holders(holder []int16, solo []uint16, shared uint64) {
	solo = solo[:len(holder)]
	for i := range holder {
		holder[i] = (int16(solo[i]) - 1) | -int16(shared&1)
		shared >>= 1
	}
}

// appendBits appends first + i for each bit i that is set.
func appendBits(list []int32, first int32, bits64 uint64) []int32 {
	for ; bits64 != 0; bits64 &= bits64 - 1 {
		list = append(list, first+int32(bits.TrailingZeros64(bits64)))
	}
	return list
}
