package tier

import (
	"fmt"
	"math"
	"sort"
)

// Options describe the frames of one owner.
type Options struct {
	Slots  int // rows of the owner
	Frames int // rows that fit in memory
	// Window is the most steps that are expected and not released.
	Window int
	// Step is the step before the first one that is expected. The log has all writes up to it.
	Step int64
	// Pinned slots are never victims, such as the rows of small tables. The ranges ascend and do not overlap.
	Pinned []Range
}

// Range is the slots from First to End-1.
type Range struct{ First, End int32 }

// Limits of a Policy.
const (
	MaxSlots  = math.MaxInt32
	MaxFrames = math.MaxInt32 - 2*MaxWindow - unordered
	MaxWindow = 1 << 15 // next uses are distinguished modulo 1<<16
)

// Row is a row and its frame.
type Row struct{ Slot, Frame int32 }

// Moves lists the work of the caller for a step that is being held, in this order. The next Hold overwrites it.
type Moves struct {
	// Spill are the dirty victims. Their bytes must have left the frames before a row is read into one.
	Spill []Row
	// Read are the rows that are read from the log or from where they were spilled, by ascending slot.
	Read []Row
	// Draw are the fresh rows, by ascending slot: their bytes are those of their init.
	Draw []Row
	// Dropped is the number of victims that need no write.
	Dropped int
}

// CapacityError reports that a step cannot be held, even if every row that is not held or pinned leaves.
type CapacityError struct {
	Step   int64
	Needed int // frames
	Pinned int // of these, for pinned rows that the step does not use
	Frames int
}

func (e *CapacityError) Error() string {
	return fmt.Sprintf("tier: step %d needs %d rows in memory, %d of them pinned, but only %d fit; raise store.dram_bytes or use smaller batches",
		e.Step, e.Needed, e.Pinned, e.Frames)
}

// Policy decides for the rows of one owner. It is used by one goroutine at a time.
type Policy struct {
	o Options
	// slots has a word for each slot: resident and the frame, or the state of an absent row.
	slots  []state
	frames []frame // then the heads of the lists
	used   int     // the frames from here on never had a row
	held   int     // frames of held rows
	idle   int     // frames of pinned rows that are not held

	uses  uses
	steps []span // of each step of the window, at step mod len(steps)

	// Invariant: released <= heldTo <= expected, and logged <= heldTo.
	released, heldTo, expected, logged int64

	absent []int32 // scratch: slots of the step being held
}

// span is the uses of a step.
type span struct{ first, end uint32 }

// New returns a Policy whose frames are empty. It returns a CapacityError if the pinned rows do not fit.
func New(o Options) (*Policy, error) {
	if o.Slots < 0 || o.Slots > MaxSlots || o.Frames < 0 || o.Frames > MaxFrames || o.Window < 1 || o.Window > MaxWindow || o.Step < 0 {
		panic(fmt.Sprintf("tier: invalid options %+v", o))
	}
	pinned, end := 0, int32(0)
	for _, r := range o.Pinned {
		if r.First < end || r.End < r.First || int(r.End) > o.Slots {
			panic(fmt.Sprintf("tier: pinned slots %d to %d follow %d, of %d slots", r.First, r.End, end, o.Slots))
		}
		pinned, end = pinned+int(r.End-r.First), r.End
	}
	if pinned > o.Frames {
		return nil, &CapacityError{Step: o.Step + 1, Needed: pinned, Pinned: pinned, Frames: o.Frames}
	}
	p := &Policy{o: o, slots: make([]state, o.Slots), frames: make([]frame, o.Frames+unordered+2*o.Window), steps: make([]span, o.Window),
		released: o.Step, heldTo: o.Step, expected: o.Step, logged: o.Step}
	for l := range unordered + 2*o.Window {
		p.clearList(p.headOf(l))
	}
	return p, nil
}

// Bytes returns the memory of the policy.
func (p *Policy) Bytes() int64 {
	return 4*int64(len(p.slots)) + 20*int64(len(p.frames)) + 16*int64(len(p.steps)) + p.uses.memory() + 4*int64(cap(p.absent))
}

// Stored declares rows that the log has, for a policy that continues where an earlier process ended. Rows are
// fresh without it.
func (p *Policy) Stored(slots []int32) {
	for _, slot := range slots {
		*p.stateOf(slot) |= written
	}
}

// stateOf returns the state of a row, wherever it is.
func (p *Policy) stateOf(slot int32) *state {
	if f, ok := p.FrameOf(slot); ok {
		return &p.frames[f].state
	}
	return &p.slots[slot]
}

// IsFresh reports whether no step has ever written a row.
func (p *Policy) IsFresh(slot int32) bool { return *p.stateOf(slot)&written == 0 }

// FrameOf returns the frame of a row, and whether it has one. The bytes of a row that is read or drawn are there
// once the caller has put them there.
func (p *Policy) FrameOf(slot int32) (frame int32, ok bool) {
	w := p.slots[slot]
	return int32(w &^ resident), w&resident != 0
}

// Expect declares the rows that the step after the last expected one uses, by ascending slot.
func (p *Policy) Expect(step int64, slots []int32) {
	if step != p.expected+1 || step-p.released > int64(p.o.Window) {
		panic(fmt.Sprintf("tier: step %d is expected after %d, with a window of %d steps from %d on", step, p.expected, p.o.Window, p.released+1))
	}
	p.expected = step
	oldest := p.uses.end
	if step > p.released+1 {
		oldest = p.spanOf(p.released + 1).first
	}
	p.uses.reserveUses(oldest, len(slots))
	first := p.uses.end - uint32(len(slots))
	*p.spanOf(step) = span{first, first + uint32(len(slots))}
	before := int32(-1)
	for i, slot := range slots {
		if slot <= before {
			panic(fmt.Sprintf("tier: slot %d follows slot %d in step %d; slots must ascend", slot, before, step))
		}
		before = slot
		p.addUse(first+uint32(i), slot, step)
	}
}

// addUse adds a use of a row, its last one in the window.
func (p *Policy) addUse(n uint32, slot int32, step int64) {
	p.uses.setUse(n, slot, step)
	s := p.stateOf(slot)
	if *s&inWindow != 0 {
		p.uses.linkTo(s.newest(), step)
	} else if f, ok := p.FrameOf(slot); ok && *s&pinned == 0 { // it is in a list, since no held step uses it
		p.unlinkFrame(f)
		p.appendTo(p.nextUseList(step, *s&dirty != 0), f)
	}
	s.setNewest(n)
}

// Hold gives frames to the rows of the oldest expected step that is not held. They keep them until the step is
// released. The frames have the rows' bytes once the caller has done the moves.
func (p *Policy) Hold(step int64, moves *Moves) error {
	if step != p.heldTo+1 || step > p.expected {
		panic(fmt.Sprintf("tier: step %d is held after %d, with steps up to %d expected", step, p.heldTo, p.expected))
	}
	s := p.spanOf(step)
	if err := p.checkRoom(step, s); err != nil {
		return err
	}
	*moves = Moves{Spill: moves.Spill[:0], Read: moves.Read[:0], Draw: moves.Draw[:0]}
	p.heldTo = step
	p.absent = p.absent[:0]
	for n := s.first; n != s.end; n++ {
		slot := p.uses.slotOf(n)
		if f, ok := p.FrameOf(slot); !ok {
			p.absent = append(p.absent, slot)
		} else if p.frames[f].isListed() {
			p.holdFrame(f)
		}
	}
	p.held += len(p.absent)
	at := 0 // the list that victims are taken from, in the order of leaving
	for _, slot := range p.absent {
		var f int32
		f, at = p.takeFrame(at, moves)
		p.fillFrame(f, slot, moves)
	}
	return nil
}

// checkRoom returns an error if the rows of a step do not fit beside the rows that must stay.
func (p *Policy) checkRoom(step int64, s *span) error {
	if p.held+int(s.end-s.first)+p.idle <= p.o.Frames {
		return nil
	}
	needed, idle := p.held+p.idle, p.idle
	for n := s.first; n != s.end; n++ {
		f, ok := p.FrameOf(p.uses.slotOf(n))
		switch {
		case !ok:
			needed++
		case !p.frames[f].isListed():
		case p.frames[f].state&pinned != 0:
			idle--
		default:
			needed++
		}
	}
	if needed <= p.o.Frames {
		return nil
	}
	return &CapacityError{Step: step, Needed: needed, Pinned: idle, Frames: p.o.Frames}
}

// fillFrame gives a frame to an absent row.
func (p *Policy) fillFrame(f, slot int32, moves *Moves) {
	s := p.slots[slot]
	list := &moves.Draw
	if s&written != 0 {
		list = &moves.Read
	}
	*list = append(*list, Row{slot, f})
	if p.isPinned(slot) {
		s |= pinned
	}
	p.frames[f] = frame{slot: slot, prev: unlisted, next: unlisted, state: s, changed: uint32(p.heldTo)}
	p.slots[slot] = resident | state(f)
}

// isPinned reports whether a slot is in a pinned range.
func (p *Policy) isPinned(slot int32) bool {
	i := sort.Search(len(p.o.Pinned), func(i int) bool { return p.o.Pinned[i].End > slot })
	return i < len(p.o.Pinned) && p.o.Pinned[i].First <= slot
}

// Wrote declares that a held step has written rows of its own, and that the log does not have this version yet.
func (p *Policy) Wrote(step int64, slots []int32) {
	if step <= p.released || step > p.heldTo || step <= p.logged {
		panic(fmt.Sprintf("tier: writes of step %d, with steps %d to %d held and step %d logged", step, p.released+1, p.heldTo, p.logged))
	}
	for _, slot := range slots {
		f, ok := p.FrameOf(slot)
		if !ok || p.frames[f].isListed() {
			panic(fmt.Sprintf("tier: step %d writes the row of slot %d, which is not held", step, slot))
		}
		p.frames[f].state |= written | dirty
		p.frames[f].changed = uint32(step)
	}
}

// Release declares that the oldest held step needs its rows no longer.
func (p *Policy) Release(step int64) {
	if step != p.released+1 || step > p.heldTo {
		panic(fmt.Sprintf("tier: step %d is released, with steps %d to %d held", step, p.released+1, p.heldTo))
	}
	s := p.spanOf(step)
	for n := s.first; n != s.end; n++ {
		f, _ := p.FrameOf(p.uses.slotOf(n))
		next := p.uses.nextOf(n, step)
		if next == step {
			p.frames[f].state.clearNewest()
		} else if next <= p.heldTo {
			continue
		}
		p.held--
		p.enlist(f, next)
	}
	p.released = step
}

// enlist adds a row to its list. next is the step of its next use, or a released one if there is none.
func (p *Policy) enlist(f int32, next int64) {
	x := &p.frames[f]
	if !x.isAfter(p.logged) {
		x.state &^= dirty
	}
	switch {
	case x.state&pinned != 0:
		p.idle++
		p.appendTo(p.headOf(idlePinned), f)
	case x.state&inWindow == 0:
		p.appendTo(p.lastUseList(x.state&dirty != 0), f)
	default:
		p.appendTo(p.nextUseList(next, x.state&dirty != 0), f)
	}
}

func (p *Policy) spanOf(step int64) *span { return &p.steps[step%int64(len(p.steps))] }
