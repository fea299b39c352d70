package oracle

// admitStep makes one more step visible to the plans.
func (w *Window) admitStep() {
	t := w.admitted
	w.admitted++
	s := w.stepAt(t)
	s.first = w.uses.end
	s.oldest = w.stepAt(w.next).first
	w.uses.reserveUses(w.stepAt(w.next).oldest, len(s.slots), w.o.CapacityRows > 0)
	w.newest.reserveSlots(s.slots, s.oldest, uint16(w.next))
	s.before = resize(s.before, len(s.slots))
	w.linkUses(s, uint16(t))
	words := (len(s.slots) + 63) / 64
	s.usedBefore, s.usedAfter = resize(s.usedBefore, words), resize(s.usedAfter, words)
	clear(s.usedBefore)
	clear(s.usedAfter)
	if t > w.next {
		last := w.stepAt(t - 1)
		markNeighbours(s.before, last.first, len(last.slots), last.usedAfter, s.usedBefore)
	}
	w.uses.end += uint32(64 * words)
	if w.o.CapacityRows > 0 {
		for i, before := range s.before {
			*w.uses.nextOf(before) = s.first + uint32(i)
		}
	}
}

// linkBlock is the number of rows linked at a time, a multiple of 64.
const linkBlock = 128

// linkUses records the uses of step t as the newest of their slots, and sets before. The
// entries of the slots are prefetched two blocks ahead, the bits of the previous uses one
// block ahead, so that cache misses overlap with each other and with computation. Each
// loop is a function of its own, so that its variables stay in registers. The loops have
// no branches, because it is random which rows were used before.
func (w *Window) linkUses(s *step, t uint16) {
	rows := len(s.slots)
	w.o.Prefetch(w.newest.of, s.slots[:min(2*linkBlock, rows)])
	w.findBlock(s, 0)
	for begin := 0; begin < rows; begin += linkBlock {
		end := min(begin+linkBlock, rows)
		w.o.Prefetch(w.newest.of, s.slots[min(end+linkBlock, rows):min(end+2*linkBlock, rows)])
		w.findBlock(s, end)
		found, n := w.foundOf(begin), s.first+uint32(begin)
		solo, before := s.solo[begin:end], s.before[begin:end]
		w.newest.storeUses(s.slots[begin:end], solo, found, before, n, t)
		w.uses.markNextUses(solo, found, before, n)
	}
}

func (w *Window) foundOf(begin int) *[linkBlock]newestUse { return &w.found[begin/linkBlock%2] }

// findBlock looks up the newest uses of a block of slots, and sets before.
func (w *Window) findBlock(s *step, begin int) {
	end := min(begin+linkBlock, len(s.slots))
	found, before := w.foundOf(begin), s.before[begin:end]
	w.newest.findUses(s.slots[begin:end], found)
	findBefore(found, s.first+uint32(begin), w.newest.oldest, before)
	w.prefetchUses(before)
}

// prefetchUses prefetches the bits of a block of uses.
func (w *Window) prefetchUses(uses []uint32) {
	w.uses.wordIndexes(uses, w.words[:len(uses)])
	w.o.Prefetch(w.uses.state, w.words[:len(uses)])
}

//go:noinline
func (x *newest) findUses(slots []int32, found *[linkBlock]newestUse) {
	of := x.of
	for i, slot := range slots {
		found[i&(linkBlock-1)] = newestUse(of[slot])
	}
}

// findBefore sets before[i] to the previous use of the row of use n+i, or to n+i itself
// if no previous use is alive.
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

// storeUses records uses n, n+1 ... as the newest of their slots.
//
//go:noinline
func (x *newest) storeUses(slots []int32, solo []uint16, found *[linkBlock]newestUse, before []uint32, n uint32, t uint16) {
	of := x.of
	solo, before = solo[:len(slots)], before[:len(slots)]
	for i, slot := range slots {
		u := uint32(found[i&(linkBlock-1)])
		run := uint32(t)<<16 | uint32(solo[i])
		run ^= (run ^ u) & -sameTrainer(u, uint32(solo[i]), before[i], n)
		of[slot] = uint64(n)<<32 | uint64(run)
		n++
	}
}

// markNextUses records at each previous use that a next one exists: n, n+1 ...
//
//go:noinline
func (x *uses) markNextUses(solo []uint16, found *[linkBlock]newestUse, before []uint32, n uint32) {
	state := x.state
	for i := 0; i < len(before); i += 64 {
		x.setBits(n+uint32(i), 0, 0)
	}
	solo = solo[:len(before)]
	for i, b := range before {
		same := sameTrainer(uint32(found[i&(linkBlock-1)]), uint32(solo[i]), b, n)
		state[int(b>>5)&(len(state)-1)] |= (uint64((b-n)>>31) | uint64(same)*upper) << (b & 31)
		n++
	}
}

// sameTrainer is 1 if use n, by solo, has a previous use b and the same single trainer makes
// both uses. Otherwise it is 0. last is the low half of the newestUse of b.
func sameTrainer(last, solo, b, n uint32) uint32 {
	return ((last^solo)&(1<<16-1) - 1) & -solo & (b - n) >> 31
}

// markNeighbours marks the rows that two consecutive steps both use, in the bits of the
// earlier and of the later step. first is the number of the earlier step's first use.
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
