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
	MaxTrainers  = 1 << 12 // holders are int16
	MaxLookahead = 1 << 14 // steps are distinguished modulo 1<<16
)

// WindowOptions configure a Window.
type WindowOptions struct {
	Trainers int
	// Self is the owner's own number among the trainers, -1 if the owner does not train.
	Self int
	// Lookahead is the number of steps that a plan sees after its own.
	Lookahead int
	// Auto adapts the lookahead, with Lookahead as its maximum. It begins at 1. After
	// each plan it grows by one if every cache had room for twice the rows fetched. It
	// shrinks by one, to no less than 1, if rows were evicted to make room.
	Auto bool
	// CapacityRows is the number of rows of this owner that one trainer's cache holds.
	// Zero means no limit.
	CapacityRows int
	// HugePages, if not nil, is called with zeroed memory that will be read at random. It
	// may ask the kernel for huge pages. It must not change the memory.
	HugePages func(memory []uint64)
	// Prefetch, if not nil, is called with the indexes of elements of memory that will be
	// used soon. It may prefetch their cache lines. It must not change the memory.
	Prefetch func(memory []uint64, at []int32)
}

// Window plans what the trainers' caches do with the rows of one owner. Add gives it
// future steps, and Next decides about the oldest one. It is pure and deterministic.
// Decisions about one row do not depend on other rows, except where CapacityRows binds.
// The windows of all owners together therefore decide what one central planner would.
type Window struct {
	o         WindowOptions
	lookahead int  // current value
	ended     bool // no more steps will be added

	ring []step // step t is at t & (len-1): the last planned step and all added after it
	next int64  // the step that Next plans
	// admitted is the first step that plans do not see yet, added the first that has not
	// been added. Invariant: after a plan, next < admitted <= added, unless no steps are
	// left.
	admitted, added int64

	uses   uses
	newest newest // newest use of each slot

	// Rows in the caches: held at the last planned step, fetched for the step being
	// planned, and evicted after the former, later after the latter.
	held, fetched, leaving rowCount
	excess                 []int       // of each trainer: rows above the capacity (negative: below it)
	kept                   [2][]uint32 // next uses of the rows that stay cached after the last two planned steps

	// Of the step being planned: bits of the rows cached before it, bits of the shared
	// rows, and the rows whose later uses decide whether they are shared.
	cached, shared []uint64
	undecided      []int32

	found     [2][linkBlock]newestUse // of the block being linked and of the next one
	words     [linkBlock]int32        // indexes in uses.state, for prefetches
	trainerOf []uint16                // of each position in the lists being added
}

// step is the list of rows of one step.
type step struct {
	slots, start []int32
	by           []uint16
	solo         []uint16 // of each row: 1 + the trainer that uses it if there is only one, else 0

	// The following are set once plans see the step.
	first                 uint32   // number of the first use
	oldest                uint32   // the first use of an unplanned step at the time when this step was admitted
	before                []uint32 // of each row: its previous use if that is not before oldest, otherwise its own
	usedBefore, usedAfter []uint64 // bits of the rows that the neighbouring steps also use
}

// endUse is one more than the number of the last use.
func (s *step) endUse() uint32 { return s.first + uint32(64*len(s.usedBefore)) }

// NewWindow returns a window without steps.
func NewWindow(o WindowOptions) *Window {
	if o.Trainers < 1 || o.Trainers > MaxTrainers || o.Self < -1 || o.Self >= o.Trainers ||
		o.Lookahead < 1 || o.Lookahead > MaxLookahead || o.CapacityRows < 0 {
		panic(fmt.Sprintf("oracle: invalid window options %+v", o))
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
	for _, c := range []*rowCount{&w.held, &w.fetched, &w.leaving} {
		*c = make(rowCount, o.Trainers+1)
	}
	return w
}

// Add adds one step. slots lists the distinct rows of this owner that the step uses,
// ascending. start and pos are as in Merged, for the concatenated lists of the trainers:
// row u is at pos[start[u]:start[u+1]]. perTrainer has the lengths of those lists. The
// arguments are copied.
func (w *Window) Add(slots, start, pos []int32, perTrainer []int) {
	if w.ended || len(perTrainer) != w.o.Trainers || len(start) != len(slots)+1 {
		panic(fmt.Sprintf("oracle: Add of a step of %d rows, %d starts and %d trainers to a window of %d trainers (ended: %t)",
			len(slots), len(start), len(perTrainer), w.o.Trainers, w.ended))
	}
	// The ring keeps the last planned step, which a Decisions still refers to, and all
	// steps after it.
	if oldest := max(0, w.next-1); w.added-oldest >= int64(len(w.ring)) {
		w.growRing(oldest)
	}
	s := w.stepAt(w.added)
	w.added++
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

// findSolo sets the field solo of a step.
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

// End declares that no more steps follow. The window then drains: the plan of the last
// step writes every row back.
func (w *Window) End() { w.ended = true }

// Ready reports whether Next can plan a step. A step must be left, and as many steps
// after it must have been added as the lookahead requires, unless End was called.
func (w *Window) Ready() bool {
	if w.ended {
		return w.next < w.added
	}
	return w.next+int64(w.lookahead) < w.added
}

// Lookahead returns the number of steps after the next one that its plan requires.
func (w *Window) Lookahead() int { return w.lookahead }

func (w *Window) stepAt(t int64) *step { return &w.ring[int(t)&(len(w.ring)-1)] }

func (w *Window) growRing(oldest int64) {
	old := *w
	w.ring = make([]step, max(4, 2*len(old.ring)))
	for t := oldest; t < w.added; t++ {
		*w.stepAt(t) = *old.stepAt(t)
	}
}

// Copy is a row with its holder.
type Copy struct {
	Slot   int32
	Holder int16 // as in Decisions
}

// Cached is a row that stays cached, and the step of its last use so far.
type Cached struct {
	Copy
	Last int64
}

// AppendCached appends the rows that stay cached after the last planned step, by
// ascending slot. It considers all uses that plans have seen.
func (w *Window) AppendCached(dst []Cached) []Cached {
	first := len(dst)
	for t := w.next; t < w.admitted; t++ {
		s := w.stepAt(t)
		for i, slot := range s.slots {
			if w.isCached(s, i) {
				dst = append(dst, Cached{Copy{slot, w.holderOf(s, i)}, w.stepOf(newestUse(w.newest.of[slot]).number())})
			}
		}
	}
	slices.SortFunc(dst[first:], func(a, b Cached) int { return cmp.Compare(a.Slot, b.Slot) })
	return dst
}

// isCached reports whether row i of step s, which has not been planned, is cached now.
func (w *Window) isCached(s *step, i int) bool {
	b := s.before[i]
	return int32(b-w.stepAt(w.next).first) < 0 && *w.uses.wordOf(b)>>(b&31)&1 != 0
}

// holderOf returns the holder of row i of step s, which is cached.
func (w *Window) holderOf(s *step, i int) int16 {
	b := s.before[i]
	if *w.uses.wordOf(b)>>(b&31)&upper != 0 {
		return Shared
	}
	return int16(s.solo[i]) - 1
}

// stepOf returns the step of a use that plans have seen, from step next on.
func (w *Window) stepOf(n uint32) int64 {
	steps := sort.Search(int(w.admitted-w.next), func(i int) bool {
		return int32(w.stepAt(w.next+int64(i)).endUse()-n) > 0
	})
	return w.next + int64(steps)
}
