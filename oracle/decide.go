package oracle

import (
	"fmt"
	"math/bits"
)

// Decisions is what happens around one step with the rows of one owner. Its
// slices are valid until the next Next of the window; lists are ascending.
//
// In the order of time: while step t-1 computes, what t-2 left for later is done
// (SyncLater, then EvictLater), then Room of t, then FetchEarly of t. After step
// t-1 come its exclusive updates, SyncNow and EvictNow, then FetchCritical of t.
type Decisions struct {
	Step int64
	// Lookahead is how many steps after this one were seen.
	Lookahead int

	// Slots lists the rows that the step uses. By[Start[u]:Start[u+1]] are the
	// trainers that want row u: its readers, and those whose gradients are summed.
	Slots, Start []int32
	By           []uint16
	// Holder says for each row which trainer has it for itself alone, reads and
	// updates it, or Shared: all trainers have a copy and apply the sum.
	Holder []int16

	// The rest are lists of positions in Slots, except Room.

	// FetchEarly and FetchCritical are the rows that come from the owner to the
	// holders before the step. Critical ones are used at step t-1 too, and are
	// written back only then; early ones may be sent while that step computes.
	FetchEarly, FetchCritical []int32
	// SyncNow and SyncLater are the shared rows: those used again at step t+1, by
	// anyone, and the others, whose sums may be brought to the copies while step
	// t+1 computes. Rows that leave are among the latter: their sums count too.
	SyncNow, SyncLater []int32
	// EvictNow and EvictLater are the rows that leave after the step, all of them
	// dirty: the holders drop them and the Window's Writer sends the value to the
	// owner; at once, because step t+1 fetches it again, or while t+1 computes.
	EvictNow, EvictLater []int32

	// Room lists rows used neither at this step nor the one before that leave to
	// make room, before anything is fetched. All are dirty and written back.
	Room []Copy
	// Held is the greatest number of rows that a trainer's cache holds around this
	// step: those held at step t-1 but for Room, and all that is fetched.
	Held int
}

// Writer is the trainer that writes a row back: its holder, or for a shared row
// the owner itself if it trains, so that nothing travels, else trainer 0.
func (w *Window) Writer(holder int) int {
	if holder == Shared {
		return max(0, w.o.Self)
	}
	return holder
}

// Next decides about the oldest step that has not been planned. It must be Ready.
// The only error is a *CapacityError, after which the window is of no more use.
func (w *Window) Next(d *Decisions) error {
	if !w.Ready() {
		panic(fmt.Sprintf("oracle: step %d planned with %d steps known and a lookahead of %d", w.next, w.known, w.lookahead))
	}
	t := w.next
	for w.admitted < w.known && w.admitted <= t+int64(w.lookahead) {
		w.admit()
	}
	s := w.at(t)
	d.Step, d.Lookahead = t, int(w.admitted-1-t)
	d.Slots, d.Start, d.By = s.slots, s.start, s.by
	for _, list := range []*[]int32{&d.FetchEarly, &d.FetchCritical, &d.SyncNow, &d.SyncLater, &d.EvictNow, &d.EvictLater} {
		*list = (*list)[:0]
	}
	d.Room = d.Room[:0]

	w.beginRoom()
	w.decide(d, s, t)
	if err := w.makeRoom(d, t); err != nil {
		return err
	}
	w.adapt(len(d.Room) > 0)
	w.next++
	return nil
}

// decide decides about the rows of step t, 64 at a time. A row's segment, the uses
// during which it stays cached, begins at a use when it is not cached and ends with
// it when no later one is seen, or when the next is not by its only holder.
func (w *Window) decide(d *Decisions, s *step, t int64) {
	words := len(s.usedBefore)
	w.cached, w.shared, w.asked = resize(w.cached, words), resize(w.shared, words), w.asked[:0]
	w.prefetchUses(s.before[:min(64, len(s.before))])
	for k := range words {
		n, rows := s.block(k)
		w.prefetchUses(s.before[64*k+rows:][:min(64, len(s.before)-64*k-rows)])
		again, alike := w.uses.pair(n)
		cached, shared := w.uses.left(s.before[64*k:][:rows], n)
		fetched := ^uint64(0) >> (64 - rows) &^ cached
		w.cached[k], w.shared[k] = cached, shared&cached|fetched&(^wantedByOne(s.solo[64*k:][:rows])|again&^alike)
		w.asked = appendBits(w.asked, int32(64*k), fetched&alike)
	}
	w.askLater(s.slots, uint16(t))
	if w.o.CapacityRows > 0 {
		w.nominate(s, t)
	}
	d.Holder = resize(d.Holder, len(s.slots))
	for k := range words {
		w.list(d, s, k)
	}
}

// block is the number of the first of uses 64k, 64k+1 ... of the step, 64 of them at
// most, and how many they are.
func (s *step) block(k int) (n uint32, rows int) {
	return s.first + uint32(64*k), min(64, len(s.slots)-64*k)
}

// askLater makes those rows asked about shared that another trainer wants later.
// They are asked about all at once, so that cache misses overlap.
//
//go:noinline
func (w *Window) askLater(slots []int32, t uint16) {
	of, shared := w.newest.of, w.shared
	for _, i := range w.asked {
		since := newestUse(of[slots[i]]).since()
		shared[i>>6] |= uint64((t-since)>>15) << (i & 63) // its sign: since > t
	}
}

// list lists what happens to 64 rows.
func (w *Window) list(d *Decisions, s *step, k int) {
	n, rows := s.block(k)
	all := ^uint64(0) >> (64 - rows)
	again, alike := w.uses.pair(n)
	shared, fetched := w.shared[k], all&^w.cached[k]
	stays := again & (shared | alike)
	leaves := all &^ stays
	w.uses.setPair(n, stays, shared)
	holder := d.Holder[64*k:][:rows]
	holders(holder, s.solo[64*k:], shared)
	w.fetched.add(holder, fetched, shared)
	w.leaving.add(holder, leaves, shared)
	if w.o.CapacityRows > 0 {
		w.keep(n, stays, d.Step)
	}

	first, before, after := int32(64*k), s.usedBefore[k], s.usedAfter[k]
	d.FetchEarly = appendBits(d.FetchEarly, first, fetched&^before)
	d.FetchCritical = appendBits(d.FetchCritical, first, fetched&before)
	d.SyncNow = appendBits(d.SyncNow, first, shared&after)
	d.SyncLater = appendBits(d.SyncLater, first, shared&^after)
	d.EvictNow = appendBits(d.EvictNow, first, leaves&after)
	d.EvictLater = appendBits(d.EvictLater, first, leaves&^after)
}

// wantedByOne has a bit for each row that one trainer alone wants.
//
//go:noinline
func wantedByOne(solo []uint16) (rows uint64) {
	for i, q := range solo {
		rows |= uint64(-uint32(q)>>31) << (i & 63)
	}
	return rows
}

// left is what the plans of the uses before have left to uses n, n+1 ...: bits of
// the rows that stayed cached, and of those that are shared.
//
//go:noinline
func (x *uses) left(before []uint32, n uint32) (stays, shared uint64) {
	known := x.known
	var words [2]uint64
	for i, b := range before {
		bits := known[int(b>>5)&(len(known)-1)] >> (b & 31) & (1 | upper) & -uint64((b-n)>>31)
		words[i>>5&1] |= bits << (i & 31)
		n++
	}
	return words[0]&(1<<32-1) | words[1]<<32, words[0]>>32 | words[1]>>32<<32
}

// holders sets the holders of rows.
//
//go:noinline
func holders(holder []int16, solo []uint16, shared uint64) {
	solo = solo[:len(holder)]
	for i := range holder {
		holder[i] = (int16(solo[i]) - 1) | -int16(shared&1)
		shared >>= 1
	}
}

// appendBits appends the numbers of bits that are set, counted from first on.
func appendBits(list []int32, first int32, bits64 uint64) []int32 {
	for ; bits64 != 0; bits64 &= bits64 - 1 {
		list = append(list, first+int32(bits.TrailingZeros64(bits64)))
	}
	return list
}
