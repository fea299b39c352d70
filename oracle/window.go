package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
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
	// HugePages, if not nil, is told of memory, all zero, that will be read at random.
	// It may ask for huge pages, and changes no byte.
	HugePages func(memory []uint64)
	// Prefetch, if not nil, is told which elements of memory will be used soon. It may
	// ask for their cache lines, and changes no byte.
	Prefetch func(memory []uint64, at []int32)
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

	uses   uses
	newest newest // use of each slot

	// Rows in the caches: held at the step last planned, fetched for the one being
	// planned, and leaving after the former, then after the latter.
	held, fetched, leaving count
	excess                 []int       // of each trainer: rows over the capacity, or under it
	kept                   [2][]uint32 // next uses of the rows that stay cached after the last two steps planned

	// Of the step that is planned: bits of the rows that are cached before and of those
	// that are shared, and the rows of which later uses decide that.
	cached, shared []uint64
	asked          []int32

	found     [2][linkBlock]newestUse // of the block that is linked and of the next one
	words     [linkBlock]int32        // of uses.known, to be prefetched
	trainerOf []uint16                // of each position in the lists being added
}

// step is one step's list.
type step struct {
	slots, start []int32
	by           []uint16
	solo         []uint16 // of each row: 1 + the trainer that wants it if it is one alone, else 0

	// Of steps that plans see:
	first                 uint32   // number of the first use
	oldest                uint32   // the first use that was still to come when the step was admitted
	before                []uint32 // of each row: its use before from oldest on, else its own
	usedBefore, usedAfter []uint64 // bits of the rows that the neighbouring steps use too
}

// end is the number after the last use.
func (s *step) end() uint32 { return s.first + uint32(64*len(s.usedBefore)) }

// NewWindow makes a window that knows no steps.
func NewWindow(o WindowOptions) *Window {
	if o.Trainers < 1 || o.Trainers > MaxTrainers || o.Self < -1 || o.Self >= o.Trainers ||
		o.Lookahead < 1 || o.Lookahead > MaxLookahead || o.CapacityRows < 0 {
		panic(fmt.Sprintf("oracle: window with %+v", o))
	}
	if o.HugePages == nil {
		o.HugePages = func([]uint64) {}
	}
	if o.Prefetch == nil {
		o.Prefetch = func([]uint64, []int32) {}
	}
	w := &Window{o: o, lookahead: o.Lookahead, excess: make([]int, o.Trainers), uses: uses{end: 64, hugePages: o.HugePages},
		newest: newest{hugePages: o.HugePages}}
	if o.Auto {
		w.lookahead = 1
	}
	for _, c := range []*count{&w.held, &w.fetched, &w.leaving} {
		*c = make(count, o.Trainers+1)
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
	w.trainerOf = resize(w.trainerOf, len(pos))
	end := 0
	for trainer, n := range perTrainer {
		fill(w.trainerOf[end:end+n], uint16(trainer))
		end += n
	}
	s.by = resize(s.by, len(pos))
	lookUp(s.by, w.trainerOf, pos)
	s.solo = resize(s.solo, len(slots))
	findSolo(s.solo, s.start, s.by)
}

// findSolo sets solo as in step.
//
//go:noinline
func findSolo(solo []uint16, start []int32, by []uint16) {
	start = start[:len(solo)+1]
	for i := range solo {
		one := uint32(start[i+1]-start[i]-2) >> 31
		solo[i] = (by[start[i]] + 1) & -uint16(one)
	}
}

//go:noinline
func fill(list []uint16, value uint16) {
	for i := range list {
		list[i] = value
	}
}

// lookUp sets to[i] to list[at[i]].
//
//go:noinline
func lookUp(to, list []uint16, at []int32) {
	to = to[:len(at)]
	for i, p := range at {
		to[i] = list[p]
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
			if w.stayed(s, i) {
				dst = append(dst, Cached{Copy{slot, w.holder(s, i)}, w.stepOf(newestUse(w.newest.of[slot]).number())})
			}
		}
	}
	slices.SortFunc(dst[first:], func(a, b Cached) int { return cmp.Compare(a.Slot, b.Slot) })
	return dst
}

// stayed tells whether row i of step s, which is to come, is cached by now.
func (w *Window) stayed(s *step, i int) bool {
	b := s.before[i]
	return int32(b-w.at(w.next).first) < 0 && *w.uses.of(b)>>(b&31)&1 != 0
}

// holder of a row that stayed.
func (w *Window) holder(s *step, i int) int16 {
	b := s.before[i]
	if *w.uses.of(b)>>(b&31)&upper != 0 {
		return Shared
	}
	return int16(s.solo[i]) - 1
}

// stepOf is the step of a use that plans have seen, from step next on.
func (w *Window) stepOf(n uint32) int64 {
	steps := sort.Search(int(w.admitted-w.next), func(i int) bool {
		return int32(w.at(w.next+int64(i)).end()-n) > 0
	})
	return w.next + int64(steps)
}
