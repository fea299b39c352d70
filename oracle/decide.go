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
	d.Holder = resize(d.Holder, len(s.slots))
	d.FetchEarly, d.FetchCritical = d.FetchEarly[:0], d.FetchCritical[:0]
	d.SyncNow, d.SyncLater = d.SyncNow[:0], d.SyncLater[:0]
	d.EvictNow, d.EvictLater = d.EvictNow[:0], d.EvictLater[:0]
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

// decide classifies the rows of step t. A row's segment, the uses during which it
// stays cached, begins at a use when it is not cached and ends with this one when
// no later use is seen, or when the next is not by its only holder.
func (w *Window) decide(d *Decisions, s *step, t int64) {
	for i := range s.slots {
		u := w.use(s.first + uint32(i))
		if u.holder < Shared {
			w.fetch(d, s, i)
		}
		d.Holder[i] = u.holder
		if u.next == 0 {
			if u.holder == Shared {
				d.SyncLater = append(d.SyncLater, int32(i))
			}
			w.leaving.add(u.holder, 1)
			d.EvictLater = append(d.EvictLater, int32(i))
			w.alive--
			continue
		}
		next := w.use(s.first + uint32(i) + u.next)
		gap := u.gap()
		switch soon := gap == 1; {
		case u.holder == Shared || u.nextGap&alike != 0:
			next.holder, next.heldSince = u.holder, uint16(t)
			if w.o.CapacityRows > 0 {
				w.at(t + int64(u.nextGap)).keep(s.first + uint32(i) + u.next)
			}
			if u.holder == Shared && soon {
				d.SyncNow = append(d.SyncNow, int32(i))
			} else if u.holder == Shared {
				d.SyncLater = append(d.SyncLater, int32(i))
			}
		case soon:
			next.holder = justLeft
			w.leaving.add(u.holder, 1)
			d.EvictNow = append(d.EvictNow, int32(i))
		default:
			w.leaving.add(u.holder, 1)
			d.EvictLater = append(d.EvictLater, int32(i))
		}
	}
}

// keep notes that a row stays cached until use n.
func (s *step) keep(n uint32) {
	i := n - s.first
	s.cached[i>>6] |= 1 << (i & 63)
	s.cachedRows++
}

// fetch begins a segment of row i of step s, the one that is planned.
func (w *Window) fetch(d *Decisions, s *step, i int) {
	u := w.use(s.first + uint32(i))
	if u.holder == justLeft {
		d.FetchCritical = append(d.FetchCritical, int32(i))
	} else {
		d.FetchEarly = append(d.FetchEarly, int32(i))
	}
	u.holder = u.solo
	if u.solo != Shared && u.next != 0 {
		if u.nextGap&alike == 0 ||
			int16(w.use(w.rows.newest(s.slots[i])).soloSince-u.step) > 0 {
			u.holder = Shared
		}
	}
	w.fetched.add(u.holder, 1)
}
