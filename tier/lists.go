package tier

// frame is memory for a row as the policy sees it, or the head of a list.
type frame struct {
	slot       int32
	prev, next int32 // frames of the same list, which is a ring with its head; unlisted for a held row
	state      state
	changed    uint32 // the step for which the row was read or drawn, or that wrote it last, modulo 1<<32
}

const unlisted = -1

func (x *frame) isListed() bool { return x.next != unlisted }

// isAfter reports whether the bytes of the row may have changed after a step. Of a row that did not change for 1<<31
// steps it may report true.
func (x *frame) isAfter(step int64) bool { return int32(x.changed-uint32(step)) > 0 }

// A frame is in one list, unless it is held or never had a row. The lists by number:
const (
	vacant     = iota // frames without a row
	idlePinned        // pinned rows
	cleanLast         // rows without a next use
	dirtyLast
	cleanKept // rows that the caller keeps
	dirtyKept
	unordered // then, for each step of the window, the clean and the dirty rows that it uses next
)

// headOf returns the head of a list.
func (p *Policy) headOf(number int) int32 { return int32(p.o.Frames + number) }

// lastUseList returns the list of rows without a next use, in the order of their last one.
func (p *Policy) lastUseList(isDirty bool) int32 {
	if isDirty {
		return p.headOf(dirtyLast)
	}
	return p.headOf(cleanLast)
}

// nextUseList returns the list of rows that a step of the window uses next.
func (p *Policy) nextUseList(step int64, isDirty bool) int32 {
	number := unordered + 2*int(step%int64(p.o.Window))
	if isDirty {
		number++
	}
	return p.headOf(number)
}

// keptList returns the list of rows that the caller keeps.
func (p *Policy) keptList(isDirty bool) int32 {
	if isDirty {
		return p.headOf(dirtyKept)
	}
	return p.headOf(cleanKept)
}

func (p *Policy) clearList(head int32) { p.frames[head].prev, p.frames[head].next = head, head }

func (p *Policy) isEmpty(head int32) bool { return p.frames[head].next == head }

// appendTo adds a frame at the end of a list.
func (p *Policy) appendTo(head, f int32) {
	last := p.frames[head].prev
	p.frames[f].prev, p.frames[f].next = last, head
	p.frames[last].next, p.frames[head].prev = f, f
}

// unlinkFrame removes a frame from its list.
func (p *Policy) unlinkFrame(f int32) {
	x := &p.frames[f]
	p.frames[x.prev].next, p.frames[x.next].prev = x.next, x.prev
	x.prev, x.next = unlisted, unlisted
}

// moveAll moves all frames of a list to the end of another one.
func (p *Policy) moveAll(to, from int32) {
	if p.isEmpty(from) {
		return
	}
	first, last := p.frames[from].next, p.frames[from].prev
	end := p.frames[to].prev
	p.frames[end].next, p.frames[first].prev = first, end
	p.frames[last].next, p.frames[to].prev = to, last
	p.clearList(from)
}
