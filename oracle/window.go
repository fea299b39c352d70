package oracle

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// Shared is the holder of a row of which every trainer has a copy.
const Shared = -1

// Limits of a Window.
const (
	MaxTrainers  = 1024
	MaxLookahead = 1 << 14 // steps are told apart modulo 1<<16
)

// WindowOptions say for whom a Window plans.
type WindowOptions struct {
	Trainers int
	// Self is the owner's own number among the trainers, -1 when it trains nothing.
	Self int
	// Lookahead is how many steps behind the one that is planned are known.
	Lookahead int
	// Auto makes Lookahead the most. It begins at 1, and after each plan it grows by
	// one if every cache could have taken twice what was fetched, and shrinks by
	// one, to no less than 1, if rows had to leave to make room.
	Auto bool
	// CapacityRows is how many rows of this owner one trainer's cache holds; 0 is
	// any number.
	CapacityRows int
}

// Window plans what the trainers' caches do with the rows of one owner. It is
// told of steps ahead of time (Add) and decides about the oldest (Next). It is
// pure and deterministic, and it decides about each row by itself except where
// CapacityRows binds, so that the windows of all owners together decide what one
// central planner would.
type Window struct {
	o         WindowOptions
	lookahead int  // at present
	ended     bool // no more steps will be added

	ring []step // step t is at t & (len-1): the one last planned and all known after it
	next int64  // the step that Next plans
	// admitted is the first step that plans do not see yet, known the first one that
	// has not been added. Invariant: next < admitted <= known after a plan, unless
	// there are no steps left.
	admitted, known int64

	rows  rowTable // with a use from step next on
	alive int      // rows in it
	uses  []use    // use n is at n & (len-1): those of admitted steps from next on
	used  uint32   // number of the next use

	// Rows in the caches: held at the step last planned, fetched for the one being
	// planned, and leaving after the former, then after the latter.
	held, fetched, leaving count
	excess                 []int    // of each trainer: rows over the capacity, or under it
	touched                uint64   // keeps loads from being left out
	before                 []uint32 // of each row being admitted: the use before, or its own
	trainerOf              []uint16 // of each position in the lists being added
}

// step is one step's list and what is known about its rows.
type step struct {
	slots, start []int32
	by           []uint16
	first        uint32 // number of the first use
	// cached has a bit for each row that stays cached until this, its next use.
	// Only where there is a capacity.
	cached     []uint64
	cachedRows int
}

// use is one use of a row. Steps are modulo 1<<16.
type use struct {
	next      uint32 // the next use's number, less this one's; 0 when none is known
	nextGap   uint16 // steps until then, and a bit: see alike
	step      uint16
	soloSince uint16 // of the newest use: all known ones from that step on are by solo
	solo      int16  // the trainer that wants the row if it is one alone, else Shared
	holder    int16  // while the row stays cached for this use, else one of those below
	heldSince uint16 // the step after which it stayed
}

const (
	notCached = -2
	justLeft  = -3 // not cached, because it left after the step before
)

// alike is set in a use's nextGap when one trainer alone wants the row both times.
const alike = 1 << 15

// gap is how many steps the next use is away.
func (u *use) gap() int { return int(u.nextGap &^ alike) }

// solo is the trainer that wants row u if it is one alone, else Shared.
func (s *step) solo(u int) int16 {
	if first := s.start[u]; s.start[u+1] == first+1 {
		return int16(s.by[first])
	}
	return Shared
}

// NewWindow makes a window that knows no steps.
func NewWindow(o WindowOptions) *Window {
	if o.Trainers < 1 || o.Trainers > MaxTrainers || o.Self < -1 || o.Self >= o.Trainers ||
		o.Lookahead < 1 || o.Lookahead > MaxLookahead || o.CapacityRows < 0 {
		panic(fmt.Sprintf("oracle: window with %+v", o))
	}
	w := &Window{o: o, lookahead: o.Lookahead, excess: make([]int, o.Trainers)}
	if o.Auto {
		w.lookahead = 1
	}
	for _, c := range []*count{&w.held, &w.fetched, &w.leaving} {
		c.own = make([]int, o.Trainers)
	}
	return w
}

// Add tells of one more step. slots lists the distinct rows of this owner that
// are wanted, ascending. Who wants them is said as Merged says it of the
// trainers' lists put one behind the other: perTrainer has the lengths of those
// lists, and row u is at pos[start[u]:start[u+1]] of them. Everything is copied.
func (w *Window) Add(slots, start, pos []int32, perTrainer []int) {
	if w.ended || len(perTrainer) != w.o.Trainers || len(start) != len(slots)+1 {
		panic(fmt.Sprintf("oracle: added a step of %d rows with %d starts of %d trainers to a window of %d (ended: %t)",
			len(slots), len(start), len(perTrainer), w.o.Trainers, w.ended))
	}
	// Kept: the step last planned, which a Decisions still shows, and all after it.
	if oldest := max(0, w.next-1); w.known-oldest >= int64(len(w.ring)) {
		w.growRing(oldest)
	}
	s := w.at(w.known)
	w.known++
	s.slots = append(s.slots[:0], slots...)
	s.start = append(s.start[:0], start...)
	w.trainerOf = w.trainerOf[:0]
	for trainer, n := range perTrainer {
		for range n {
			w.trainerOf = append(w.trainerOf, uint16(trainer))
		}
	}
	s.by = resize(s.by, len(pos))
	for i, p := range pos {
		s.by[i] = w.trainerOf[p]
	}
}

// End says that no more steps come: the window shrinks to nothing, and with the
// plan of the last step every row has been written back.
func (w *Window) End() { w.ended = true }

// Ready tells whether Next can plan: there is a step left, and as many after it
// are known as the lookahead wants, or as there are.
func (w *Window) Ready() bool {
	if w.ended {
		return w.next < w.known
	}
	return w.next+int64(w.lookahead) < w.known
}

// Lookahead is how many steps behind the next one its plan will want to know.
func (w *Window) Lookahead() int { return w.lookahead }

func (w *Window) at(t int64) *step { return &w.ring[int(t)&(len(w.ring)-1)] }

func (w *Window) growRing(oldest int64) {
	old := *w
	w.ring = make([]step, max(4, 2*len(old.ring)))
	for t := oldest; t < w.known; t++ {
		*w.at(t) = *old.at(t)
	}
}

func (w *Window) use(n uint32) *use { return &w.uses[int(n)&(len(w.uses)-1)] }

// growUses makes room for uses up to number end.
func (w *Window) growUses(end uint32) {
	oldest := w.rows.oldest
	if int(end-oldest) <= len(w.uses) {
		return
	}
	old := *w
	w.uses = make([]use, 1<<bits.Len(uint(end-oldest)))
	for n := oldest; n != w.used; n++ {
		*w.use(n) = *old.use(n)
	}
}

// admit lets the plans see one more step.
func (w *Window) admit() {
	t := w.admitted
	w.admitted++
	s := w.at(t)
	s.first = w.used
	if w.o.CapacityRows > 0 {
		s.cached = resize(s.cached, (len(s.slots)+63)/64)
		clear(s.cached)
		s.cachedRows = 0
	}
	w.rows.reserve(len(s.slots), w.alive, w.at(w.next).first)
	w.growUses(w.used + uint32(len(s.slots)))
	w.before = resize(w.before, len(s.slots))
	w.alive += w.rows.putAll(s.slots, w.used, w.before)
	for first := 0; first < len(s.slots); first += touchBlock {
		w.link(s, uint16(t), first, min(first+touchBlock, len(s.slots)))
	}
	w.used += uint32(len(s.slots))
}

// link makes some uses and links each to the one before.
func (w *Window) link(s *step, t uint16, first, end int) {
	for _, n := range w.before[first:end] {
		w.touched += uint64(w.use(n).step) // so that the cache misses overlap
	}
	next := uint16(w.next)
	for i := first; i < end; i++ {
		n, before := s.first+uint32(i), w.before[i]
		u := use{step: t, soloSince: t, solo: s.solo(i), holder: notCached}
		if before != n {
			last := w.use(before)
			last.next, last.nextGap = n-before, t-last.step
			since := last.soloSince
			if int16(since-next) < 0 {
				since = next // as good, and never half a cycle away
			}
			if u.solo == last.solo {
				u.soloSince = since
				if u.solo != Shared {
					last.nextGap |= alike
				}
			}
		}
		*w.use(n) = u
	}
}

// Copy is a row that trainers hold.
type Copy struct {
	Slot   int32
	Holder int16 // as in Decisions
}

// Cached is a row that stays cached, and its last known use.
type Cached struct {
	Copy
	Last int64
}

// AppendCached appends the rows that stay cached after the step last planned, by
// ascending slot. It looks at all uses that plans have seen.
func (w *Window) AppendCached(dst []Cached) []Cached {
	first := len(dst)
	for t := w.next; t < w.admitted; t++ {
		s := w.at(t)
		for i, slot := range s.slots {
			if u := w.use(s.first + uint32(i)); u.holder >= Shared {
				last := w.use(w.rows.newest(slot)).step
				dst = append(dst, Cached{Copy{slot, u.holder}, w.next + int64(int16(last-uint16(w.next)))})
			}
		}
	}
	slices.SortFunc(dst[first:], func(a, b Cached) int { return cmp.Compare(a.Slot, b.Slot) })
	return dst
}
