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
	w.link(s, uint16(t))
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

// linkBlock is how many rows are linked at a time, a multiple of 64.
const linkBlock = 128

// link makes the uses of step t the newest of their slots and sets before. What is
// known of slots is prefetched two blocks ahead, what is known of the uses before
// one block ahead, so that cache misses overlap with each other and with work. Each
// loop is a function, so that its variables stay in registers, and has no branches,
// because which rows were used before is chance.
func (w *Window) link(s *step, t uint16) {
	rows := len(s.slots)
	w.o.Prefetch(w.newest.of, s.slots[:min(2*linkBlock, rows)])
	w.findBlock(s, 0)
	for begin := 0; begin < rows; begin += linkBlock {
		end := min(begin+linkBlock, rows)
		w.o.Prefetch(w.newest.of, s.slots[min(end+linkBlock, rows):min(end+2*linkBlock, rows)])
		w.findBlock(s, end)
		found, n := w.foundOf(begin), s.first+uint32(begin)
		solo, before := s.solo[begin:end], s.before[begin:end]
		w.newest.put(s.slots[begin:end], solo, found, before, n, t)
		w.uses.link(solo, found, before, n)
	}
}

func (w *Window) foundOf(begin int) *[linkBlock]newestUse { return &w.found[begin/linkBlock%2] }

// findBlock finds what is known of the slots of a block, and sets before.
func (w *Window) findBlock(s *step, begin int) {
	end := min(begin+linkBlock, len(s.slots))
	found, before := w.foundOf(begin), s.before[begin:end]
	w.newest.find(s.slots[begin:end], found)
	findBefore(found, s.first+uint32(begin), w.newest.oldest, before)
	w.prefetchUses(before)
}

// prefetchUses prefetches what is known of a block of uses.
func (w *Window) prefetchUses(uses []uint32) {
	w.uses.places(uses, w.words[:len(uses)])
	w.o.Prefetch(w.uses.known, w.words[:len(uses)])
}

//go:noinline
func (x *newest) find(slots []int32, found *[linkBlock]newestUse) {
	of := x.of
	for i, slot := range slots {
		found[i&(linkBlock-1)] = newestUse(of[slot])
	}
}

// findBefore sets before to the use before of each of uses n, n+1 ..., or to its own
// number where none is alive.
//
//go:noinline
func findBefore(found *[linkBlock]newestUse, n, oldest uint32, before []uint32) {
	for i := range before {
		b := found[i&(linkBlock-1)].number()
		b ^= (b ^ n) & uint32(int32(b-oldest)>>31)
		before[i] = b
		n++
	}
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
