package oracle

import "fmt"

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

// fate is what happens to a row around a step: bits.
type fate uint8

const (
	fetchEarly fate = 1 << iota
	fetchCritical
	syncNow
	syncLater
	evictNow
	evictLater
)

// decide decides about the rows of step t: classify says what happens to each,
// list and tally bring it together.
func (w *Window) decide(d *Decisions, s *step, t int64) {
	soon := s.end()
	if t+1 < w.admitted {
		soon = w.at(t + 1).end()
	}
	d.Holder, w.fates = resize(d.Holder, len(s.slots)), resize(w.fates, len(s.slots))
	w.classify(s, uint16(t), soon, d.Holder, w.fates)
	d.list(w.fates)
	w.tally(d.Holder, w.fates)
	if w.o.CapacityRows > 0 {
		w.keep(s, t)
	}
}

// classify sets the holders and fates of the rows of step t, and leaves states to
// their next uses; uses before number soon are of step t+1 at the latest. A row's
// segment, the uses during which it stays cached, begins at a use when it is not
// cached and ends with it when no later one is seen, or when the next is not by
// its only holder.
//
// Rows do not wait for each other, and what cannot be foretold is not branched on.
//
//go:noinline
func (w *Window) classify(s *step, t uint16, soon uint32, holder []int16, fates []fate) {
	links, states := w.uses.links, w.uses.states[:len(w.uses.links)]
	start, by := s.start[:len(fates)+1], s.by
	holder = holder[:len(fates)]
	n := s.first
	for i := range fates {
		l, now := links[int(n)&(len(links)-1)], uint32(states[int(n)&(len(links)-1)])
		again, alike, gap := uint32(l&linked), l.alike(), l.gap()
		soonAgain := uint32((uint64(gap)-1-uint64(soon-n-1))>>63) & again
		first := start[i]
		several := uint32(1-(start[i+1]-first)) >> 31
		cached := now >> 1
		fetched := 1 - cached
		all := cached&now | fetched&(several|again-alike) // trainers hold it
		if fetched&alike != 0 && int16(links[w.uses.at(w.newest.of[s.slots[i]])].since()-t) > 0 {
			all = 1
		}
		stays := again & (all | alike)
		states[int(n+gap)&(len(links)-1)] = state(stays*(uint32(exclusive)|all) | soonAgain&^stays)
		holder[i] = int16(by[first]) | -int16(all)
		fates[i] = fate(fetched<<(now&1) | all<<2<<(1-soonAgain) | (1-stays)<<4<<(1-soonAgain))
		n++
	}
}

// list lists the rows by fate.
func (d *Decisions) list(fates []fate) {
	d.FetchEarly, d.FetchCritical = split(d.FetchEarly, d.FetchCritical, fates, 0)
	d.SyncNow, d.SyncLater = split(d.SyncNow, d.SyncLater, fates, 2)
	d.EvictNow, d.EvictLater = split(d.EvictNow, d.EvictLater, fates, 4)
}

// split lists the rows whose fate has bit shift, and those with the one above. A
// row is written to the end of both lists, which grow only where it belongs.
//
//go:noinline
func split(a, b []int32, fates []fate, shift uint) (a2, b2 []int32) {
	a, b = resize(a, len(fates)), resize(b, len(fates))
	i, j := 0, 0
	for u, f := range fates {
		a[i], b[j] = int32(u), int32(u)
		f >>= shift & 7
		i += int(f & 1)
		j += int(f >> 1 & 1)
	}
	return a[:i], b[:j]
}

// tally counts the rows that are fetched and those that leave.
func (w *Window) tally(holder []int16, fates []fate) {
	fetched, leaving := w.fetched, w.leaving
	holder = holder[:len(fates)]
	for i, f := range fates {
		h := holder[i] + 1
		fetched[h] += int(f&1 | f>>1&1)
		leaving[h] += int(f>>4&1 | f>>5&1)
	}
}
