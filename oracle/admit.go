package oracle

// admit lets the plans see one more step.
func (w *Window) admit() {
	t := w.admitted
	w.admitted++
	s := w.at(t)
	s.first = w.uses.end
	s.oldest = w.at(w.next).first
	w.uses.reserve(w.at(w.next).oldest, len(s.slots), w.o.CapacityRows > 0)
	w.newest.reserve(s.slots, s.oldest, uint16(w.next))
	s.before = resize(s.before, len(s.slots))
	for begin := 0; begin < len(s.slots); begin += linkBlock {
		end := min(begin+linkBlock, len(s.slots))
		w.link(s.slots[begin:end], s.solo[begin:end], s.before[begin:end], s.first+uint32(begin), uint16(t))
	}
	words := (len(s.slots) + 63) / 64
	s.usedBefore, s.usedAfter = resize(s.usedBefore, words), resize(s.usedAfter, words)
	clear(s.usedBefore)
	clear(s.usedAfter)
	if t > w.next {
		last := w.at(t - 1)
		markNeighbours(s.before, last.first, len(last.slots), last.usedAfter, s.usedBefore)
	}
	w.uses.end += uint32(64 * words)
	if w.o.CapacityRows > 0 {
		for i, before := range s.before {
			*w.uses.nextOf(before) = s.first + uint32(i)
		}
	}
}

// linkBlock is how many rows are linked at a time, a multiple of 64: what is known
// of them is read first, so that cache misses overlap.
const linkBlock = 128

// link makes uses n, n+1 ... of step t the newest of these slots and sets before to
// the use before of each, or to its own number where none is alive. Each loop is a
// function, so that its variables stay in registers, and has no branches, because
// which rows were used before is chance.
func (w *Window) link(slots []int32, solo []uint16, before []uint32, n uint32, t uint16) {
	w.newest.find(slots, &w.found)
	w.touched += w.uses.findBefore(&w.found, n, w.newest.oldest, before)
	w.newest.put(slots, solo, &w.found, before, n, t)
	w.uses.link(solo, &w.found, before, n)
}

//go:noinline
func (x *newest) find(slots []int32, found *[linkBlock]newestUse) {
	of := x.of
	for i, slot := range slots {
		found[i&(linkBlock-1)] = newestUse(of[slot])
	}
}

// findBefore sets before and reads what uses.link will change.
//
//go:noinline
func (x *uses) findBefore(found *[linkBlock]newestUse, n, oldest uint32, before []uint32) (touched uint64) {
	known := x.known
	for i := range before {
		b := found[i&(linkBlock-1)].number()
		b ^= (b ^ n) & uint32(int32(b-oldest)>>31)
		before[i] = b
		touched += known[int(b>>5)&(len(known)-1)]
		n++
	}
	return touched
}

// put makes uses the newest.
//
//go:noinline
func (x *newest) put(slots []int32, solo []uint16, found *[linkBlock]newestUse, before []uint32, n uint32, t uint16) {
	of := x.of
	solo, before = solo[:len(slots)], before[:len(slots)]
	for i, slot := range slots {
		u := uint32(found[i&(linkBlock-1)])
		run := uint32(t)<<16 | uint32(solo[i])
		run ^= (run ^ u) & -alike(u, uint32(solo[i]), before[i], n)
		of[slot] = uint64(n)<<32 | uint64(run)
		n++
	}
}

// link says of the uses before that there is a next, n and so on.
//
//go:noinline
func (x *uses) link(solo []uint16, found *[linkBlock]newestUse, before []uint32, n uint32) {
	known := x.known
	for i := 0; i < len(before); i += 64 {
		x.setPair(n+uint32(i), 0, 0)
	}
	solo = solo[:len(before)]
	for i, b := range before {
		same := alike(uint32(found[i&(linkBlock-1)]), uint32(solo[i]), b, n)
		known[int(b>>5)&(len(known)-1)] |= (uint64((b-n)>>31) | uint64(same)*upper) << (b & 31)
		n++
	}
}

// alike is 1 when use n, by solo, has one before, b, and one and the same trainer
// alone wants the row both times. last is the low half of what is known of b.
func alike(last, solo, b, n uint32) uint32 {
	return ((last^solo)&(1<<16-1) - 1) & -solo & (b - n) >> 31
}

// markNeighbours sets the bits of the rows of two steps, one after the other, that
// both use: those of the earlier one have uses first, first+1 ...
//
//go:noinline
func markNeighbours(before []uint32, first uint32, rows int, earlier, later []uint64) {
	for i, b := range before {
		if at := b - first; at < uint32(rows) {
			earlier[at>>6] |= 1 << (at & 63)
			later[i>>6] |= 1 << (i & 63)
		}
	}
}
