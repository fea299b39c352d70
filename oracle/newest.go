package oracle

// newest knows the newest use of each slot. Uses are numbered, modulo 1<<32, in
// the order in which they became known. One that is older than `oldest` is dead:
// it counts as not there.
//
// It is an array over all slots, 4 bytes each, not a hash table: a step's slots
// ascend, so that it is gone through in order, page after page, and no cache miss
// waits for another. A window of 200 steps knows so many rows that a hash table
// of them would be no smaller.
type newest struct {
	of     []uint32 // of each slot; a dead one where there is none
	oldest uint32
	hand   int // the slot to be swept next
	before []uint32
}

// sweepSteps is in how many steps all slots are swept: before a dead use could be
// taken for one to come, for steps of up to two million rows.
const sweepSteps = 1 << 10

// reserve makes room for a step's slots, which ascend, and moves the border between
// dead and alive to oldest.
func (x *newest) reserve(oldest uint32, slots []int32) {
	x.oldest = oldest
	x.sweep((len(x.of) + sweepSteps - 1) / sweepSteps)
	if len(slots) == 0 || int(slots[len(slots)-1]) < len(x.of) {
		return
	}
	old := len(x.of)
	last := int(slots[len(slots)-1])
	x.of = append(x.of, make([]uint32, last+1+last/8-old)...)
	if oldest != 1 { // else 0 is dead
		for i := range x.of[old:] {
			x.of[old+i] = oldest - 1
		}
	}
}

// sweep marks what is dead in the next few slots as freshly dead.
func (x *newest) sweep(slots int) {
	if x.hand >= len(x.of) {
		x.hand = 0
	}
	part := x.of[x.hand:min(x.hand+slots, len(x.of))]
	x.hand += len(part)
	for i, n := range part {
		if int32(n-x.oldest) < 0 {
			part[i] = x.oldest - 1
		}
	}
}

// put makes uses first, first + 1 ... the newest of these slots and returns the use
// before of each, or the new one's own where none is alive.
func (x *newest) put(slots []int32, first uint32) (before []uint32) {
	x.before = resize(x.before, len(slots))
	putAll(x.of, slots, x.before, first, x.oldest)
	return x.before
}

// putAll has no branches: which rows were used before is chance.
//
//go:noinline
func putAll(of []uint32, slots []int32, before []uint32, first, oldest uint32) {
	before = before[:len(slots)]
	for i, slot := range slots {
		n := first + uint32(i)
		last := of[slot]
		of[slot] = n
		dead := uint32(int32(last-oldest) >> 31)
		before[i] = last ^ (last^n)&dead
	}
}
