package oracle

import "math/bits"

// rowTable finds the newest known use of a slot. Uses are numbered, modulo 1<<32,
// in the order in which they became known.
//
// It is a hash table of buckets, at most half full. A row whose newest use is older
// than `oldest` is dead: it counts as not there and its place is free, so that
// nothing is ever removed, which would cost a second cache miss. A row that does
// not fit in its bucket goes to the next; a bucket knows until which use rows that
// passed it are alive, and a search goes on only until then. Nothing depends on
// where rows lie.
type rowTable struct {
	buckets []bucket
	oldest  uint32
	shift   uint   // 64 - log2(len(buckets))
	hand    uint64 // the bucket to be swept next
	order   []int32
	touched uint64 // keeps loads from being left out
}

// bucket is one cache line.
type bucket struct {
	items  [7]uint64 // (slot + 1) << 32 | use; an empty place is a dead row
	passed uint32    // the newest use of any row that passed this bucket
	_      uint32
}

const (
	leastBuckets = 1 << 4
	// sweepSteps is in how many steps all buckets are swept: before a dead use could
	// be taken for one to come, for steps of up to two million rows.
	sweepSteps = 1 << 10
	// touchBlock is how many rows are loaded together before work on them begins.
	touchBlock = 64
)

// home is the first bucket to look into. Slots may come in any arithmetic pattern,
// which one product would map to another.
func (x *rowTable) home(slot int32) uint64 {
	h := uint64(uint32(slot)) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	return h >> x.shift
}

func (x *rowTable) alive(use uint32) bool { return int32(use-x.oldest) >= 0 }

// putAll puts uses first, first + 1 ... of these slots and sets before to the use
// before of each, or to the new one's own where there is none: their number is
// returned. It goes through the table in its order, because a step's slots lie all
// over it: page by page, and in blocks whose cache misses overlap.
func (x *rowTable) putAll(slots []int32, first uint32, before []uint32) (fresh int) {
	x.sortByHome(slots)
	for begin := 0; begin < len(slots); begin += touchBlock {
		block := x.order[begin:min(begin+touchBlock, len(slots))]
		for _, i := range block {
			x.touched += x.buckets[x.home(slots[i])].items[0]
		}
		for _, i := range block {
			use := first + uint32(i)
			last, found := x.put(slots[i], use)
			if !found {
				last = use
				fresh++
			}
			before[i] = last
		}
	}
	return fresh
}

// sortByHome sets order to the positions of slots by the first bits of their homes.
func (x *rowTable) sortByHome(slots []int32) {
	const digit = 11
	shift := max(0, 64-int(x.shift)-digit)
	var next [1 << digit]int32
	for _, slot := range slots {
		next[x.home(slot)>>shift]++
	}
	sum := int32(0)
	for d, n := range next {
		next[d] = sum
		sum += n
	}
	x.order = resize(x.order, len(slots))
	for i, slot := range slots {
		d := x.home(slot) >> shift
		x.order[next[d]] = int32(i)
		next[d]++
	}
}

// match has bit j set where item j of a bucket is alive and of this key. It has no
// branches: which item it is cannot be foretold.
func (x *rowTable) match(b *bucket, key uint64) (bits uint32) {
	for j, item := range &b.items {
		other := (item>>32 ^ key) - 1 // top bit set when equal
		bits |= uint32(other>>63) & (^(uint32(item) - x.oldest) >> 31) << j
	}
	return bits
}

// free has bit j set where item j of a bucket is dead.
func (x *rowTable) free(b *bucket) (bits uint32) {
	for j, item := range &b.items {
		bits |= (uint32(item) - x.oldest) >> 31 << j
	}
	return bits
}

// put makes use the newest of a slot and returns the one before if that is alive.
// There is room: see reserve.
func (x *rowTable) put(slot int32, use uint32) (before uint32, found bool) {
	mask := uint64(len(x.buckets) - 1)
	key := uint64(slot) + 1
	home := x.home(slot)
	if b := &x.buckets[home&mask]; !x.alive(b.passed) {
		bit := x.match(b, key) // nearly always decides
		found = bit != 0
		if !found {
			bit = x.free(b)
		}
		if bit != 0 {
			item := &b.items[bits.TrailingZeros32(bit)]
			before = uint32(*item)
			*item = key<<32 | uint64(use)
			return before, found
		}
	}
	return x.putFar(home, key, use)
}

// putFar is put where rows have passed their home. The row comes as near to it as
// there is a free place.
func (x *rowTable) putFar(home, key uint64, use uint32) (before uint32, found bool) {
	mask := uint64(len(x.buckets) - 1)
	to, at := (*uint64)(nil), home
	for i := home; ; i++ {
		b := &x.buckets[i&mask]
		if bit := x.free(b); bit != 0 && to == nil {
			to, at = &b.items[bits.TrailingZeros32(bit)], i
		}
		if bit := x.match(b, key); bit != 0 {
			item := &b.items[bits.TrailingZeros32(bit)]
			before, found = uint32(*item), true
			if to != nil {
				*item = uint64(x.oldest - 1)
			} else {
				to, at = item, i
			}
			break
		}
		if to != nil && !x.alive(b.passed) {
			break
		}
	}
	*to = key<<32 | uint64(use)
	for i := home; i != at; i++ {
		if passed := &x.buckets[i&mask].passed; int32(use-*passed) > 0 {
			*passed = use
		}
	}
	return before, found
}

// newest is the newest use of a slot that is alive.
func (x *rowTable) newest(slot int32) uint32 {
	mask := uint64(len(x.buckets) - 1)
	for i := x.home(slot); ; i++ {
		b := &x.buckets[i&mask]
		if bit := x.match(b, uint64(slot)+1); bit != 0 {
			return uint32(b.items[bits.TrailingZeros32(bit)])
		}
	}
}

// reserve makes room for n more rows when so many are alive, and moves the
// border between dead and alive to oldest.
func (x *rowTable) reserve(n, alive int, oldest uint32) {
	x.oldest = oldest
	x.sweep((len(x.buckets) + sweepSteps - 1) / sweepSteps)
	if 2*(alive+n) <= len(bucket{}.items)*len(x.buckets) {
		return
	}
	old := x.buckets
	x.buckets = make([]bucket, max(leastBuckets, 1<<bits.Len(uint(2*(alive+n)/len(bucket{}.items)))))
	x.shift = uint(64 - bits.TrailingZeros(uint(len(x.buckets))))
	for i := range x.buckets {
		x.buckets[i].passed = oldest - 1
		for j := range x.buckets[i].items {
			x.buckets[i].items[j] = uint64(oldest - 1)
		}
	}
	for i := range old {
		for _, item := range old[i].items {
			if x.alive(uint32(item)) {
				x.put(int32(item>>32-1), uint32(item))
			}
		}
	}
}

// sweep marks what is dead in the next few buckets as freshly dead.
func (x *rowTable) sweep(buckets int) {
	for range buckets {
		b := &x.buckets[x.hand&uint64(len(x.buckets)-1)]
		x.hand++
		for j, item := range b.items {
			if !x.alive(uint32(item)) {
				b.items[j] = uint64(x.oldest - 1)
			}
		}
		if !x.alive(b.passed) {
			b.passed = x.oldest - 1
		}
	}
}
