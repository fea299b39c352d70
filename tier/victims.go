package tier

import "fmt"

// leavingList returns list number i in the order in which rows leave, and whether there is one: clean rows before dirty
// ones, and each of them without a next use, then from the furthest next use on. Kept rows follow, clean ones before dirty ones.
func (p *Policy) leavingList(i int) (head int32, ok bool) {
	half := 1 + int(p.expected-p.heldTo)
	if i >= 2*half {
		return p.keptList(i > 2*half), i < 2*half+2
	}
	isDirty := i >= half
	if isDirty {
		i -= half
	}
	if i == 0 {
		return p.lastUseList(isDirty), true
	}
	return p.nextUseList(p.expected-int64(i-1), isDirty), true
}

// takeFrame returns a frame without a row, in which the next row is put. It looks for a victim from list number
// at on, as leavingList counts, and returns the number of the list that had one. checkRoom made sure of one.
func (p *Policy) takeFrame(at int, moves *Moves) (f int32, next int) {
	if p.used < p.o.Frames {
		p.used++
		return int32(p.used - 1), at
	}
	if head := p.headOf(vacant); !p.isEmpty(head) {
		f = p.frames[head].prev
		p.unlinkFrame(f)
		return f, at
	}
	for {
		head, ok := p.leavingList(at)
		if !ok {
			panic(fmt.Sprintf("tier: no victim of %d frames with %d held and %d pinned", p.o.Frames, p.held, p.idle))
		}
		if !p.isEmpty(head) {
			f = p.frames[head].next
			p.unlinkFrame(f)
			p.evictRow(f, moves)
			return f, at
		}
		at++
	}
}

// evictRow takes the row out of a frame.
func (p *Policy) evictRow(f int32, moves *Moves) {
	x := &p.frames[f]
	if x.state&dirty != 0 {
		moves.Spill = append(moves.Spill, Row{x.slot, f})
	} else {
		moves.Dropped++
	}
	p.slots[x.slot] = x.state & absentBits
}

// Logged declares that the log can be read for all writes up to a step, which no step will write any more. For
// victims that are a function of the run, it is called at the same place of every run, such as the one where an epoch
// ends, and the caller waits for the log there.
func (p *Policy) Logged(step int64) {
	if step < p.logged || step > p.heldTo {
		panic(fmt.Sprintf("tier: step %d is logged after %d, with step %d held", step, p.logged, p.heldTo))
	}
	p.logged = step
	p.cleanRows(p.lastUseList(true), p.lastUseList(false))
	p.cleanRows(p.keptList(true), p.keptList(false))
	for s := p.heldTo + 1; s <= p.expected; s++ {
		p.cleanRows(p.nextUseList(s, true), p.nextUseList(s, false))
	}
}

// cleanRows moves the rows of a dirty list that are clean now to a clean one.
func (p *Policy) cleanRows(from, to int32) {
	for f := p.frames[from].next; f != from; {
		x := &p.frames[f]
		next := x.next
		if !x.isAfter(p.logged) {
			x.state &^= dirty
			p.unlinkFrame(f)
			p.appendTo(to, f)
		}
		f = next
	}
}

// Cut takes all steps after a logged one back: their writes and their uses. The rows that no earlier step wrote are
// fresh. The log was cut to the same step, and the caller's reads have ended. The next step to be expected is the one
// after it. The rows that may have changed since then leave their frames, and the others are clean.
func (p *Policy) Cut(step int64, fresh []int32) {
	if step > p.logged {
		panic(fmt.Sprintf("tier: cut to step %d, with step %d logged", step, p.logged))
	}
	rest := p.lastUseList(false)
	for i := 1; ; i++ {
		head, ok := p.leavingList(i)
		if !ok {
			break
		}
		p.moveAll(rest, head)
	}
	p.forgetUses(rest)
	p.released, p.heldTo, p.expected, p.logged, p.held = step, step, step, step, 0
	p.dropChanged(rest)
	p.dropChanged(p.headOf(idlePinned))
	for _, slot := range fresh {
		if p.slots[slot]&^written != 0 {
			panic(fmt.Sprintf("tier: the row of slot %d was first written after step %d, but has bytes of that step", slot, step))
		}
		p.slots[slot] = 0
	}
}

// forgetUses removes all uses of the window. Held rows are added to the list rest, or to that of pinned rows.
func (p *Policy) forgetUses(rest int32) {
	for s := p.released + 1; s <= p.expected; s++ {
		u := p.spanOf(s)
		for n := u.first; n != u.end; n++ {
			slot := p.uses.slotOf(n)
			p.stateOf(slot).clearNewest()
			f, ok := p.FrameOf(slot)
			switch {
			case !ok || p.frames[f].isListed():
			case p.frames[f].state&pinned != 0:
				p.idle++
				p.appendTo(p.headOf(idlePinned), f)
			default:
				p.appendTo(rest, f)
			}
		}
	}
}

// dropChanged empties the frames of a list whose rows may have changed after the last logged step.
func (p *Policy) dropChanged(head int32) {
	for f := p.frames[head].next; f != head; {
		x := &p.frames[f]
		next := x.next
		x.state &^= dirty
		if x.isAfter(p.logged) {
			if x.state&pinned != 0 {
				p.idle--
			}
			p.slots[x.slot] = x.state & absentBits
			p.unlinkFrame(f)
			p.appendTo(p.headOf(vacant), f)
		}
		f = next
	}
}
