package tier

import "fmt"

// Access is a step without lookahead: it does the work of Expect, Hold, Wrote if the rows are written, and Release, at a
// fraction of the cost. No other step may be expected. Slots may be in any order, and listed more than once. It sets frames[i] to
// the frame of slots[i]. Without a next use rows leave in the order in which slots lists them.
func (p *Policy) Access(step int64, slots, frames []int32, writes bool, moves *Moves) error {
	if step != p.expected+1 || p.released != p.expected || len(frames) != len(slots) {
		panic(fmt.Sprintf("tier: step %d accesses rows after %d, with step %d released", step, p.expected, p.released))
	}
	p.absent = p.absent[:0]
	for i, slot := range slots {
		f, ok := p.FrameOf(slot)
		if !ok {
			f = noFrame
			p.absent = append(p.absent, int32(i))
		} else if p.frames[f].isListed() {
			p.holdFrame(f)
		}
		frames[i] = f
	}
	*moves = Moves{Spill: moves.Spill[:0], Read: moves.Read[:0], Draw: moves.Draw[:0]}
	err := p.fillAbsent(step, slots, frames, moves)
	for _, f := range frames {
		if f == noFrame {
			continue // after an error
		}
		x := &p.frames[f]
		if writes && err == nil {
			x.state |= written | dirty
			x.changed = uint32(step)
		}
		if !x.isListed() {
			p.held--
			p.enlist(f, step)
		}
	}
	return err
}

const noFrame = -1

// holdFrame takes a frame out of its list.
func (p *Policy) holdFrame(f int32) {
	p.unlinkFrame(f)
	p.held++
	if p.frames[f].state&pinned != 0 {
		p.idle--
	}
}

// fillAbsent gives frames to the absent rows of an access. Their indexes in slots are listed.
func (p *Policy) fillAbsent(step int64, slots, frames []int32, moves *Moves) error {
	needed := p.held + p.idle
	if needed+len(p.absent) > p.o.Frames {
		distinct := map[int32]bool{}
		for _, i := range p.absent {
			distinct[slots[i]] = true
		}
		if needed += len(distinct); needed > p.o.Frames {
			return &CapacityError{Step: step, Needed: needed, Pinned: p.idle, Frames: p.o.Frames}
		}
	}
	p.released, p.heldTo, p.expected = step, step, step
	at := 0 // the list that victims are taken from, in the order of leaving
	for _, i := range p.absent {
		slot := slots[i]
		f, ok := p.FrameOf(slot) // it may be listed before
		if !ok {
			f, at = p.takeFrame(at, moves)
			p.fillFrame(f, slot, moves)
			p.held++
		}
		frames[i] = f
	}
	return nil
}

// Keep declares rows that accesses will use soon. The resident ones leave after all rows that are not kept, in the order in which they were
// kept last. A row that is accessed is no longer kept. No step may be expected.
func (p *Policy) Keep(slots []int32) {
	if p.released != p.expected {
		panic(fmt.Sprintf("tier: rows are kept while step %d is expected, with step %d released", p.expected, p.released))
	}
	for _, slot := range slots {
		f, ok := p.FrameOf(slot)
		if ok && p.frames[f].state&pinned == 0 {
			p.unlinkFrame(f)
			p.appendTo(p.keptList(p.frames[f].state&dirty != 0), f)
		}
	}
}

// Unkeep ends the effect of all calls of Keep. The rows leave after the others that are clean, or dirty.
func (p *Policy) Unkeep() {
	for _, isDirty := range []bool{false, true} {
		p.moveAll(p.lastUseList(isDirty), p.keptList(isDirty))
	}
}
