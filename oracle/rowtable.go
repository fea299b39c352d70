package oracle

import "math/bits"

// rowTable finds the newest known use of a slot. Uses are numbered, modulo 1<<32,
// in the order in which they became known.
//
// It is a hash table of buckets of one cache line, at most half full. A row whose newest use is older
// than `oldest` is dead: it counts as not there and its place is free, so that
// nothing is ever removed, which would cost a second cache miss. A row that does
// not fit in its bucket goes to the next; a bucket knows until which use rows that
// passed it are alive, and a search goes on only until then. Nothing depends on
// where rows lie.
type rowTable struct {
	buckets []bucket
	passed  []uint32 // for each bucket: the newest use of any row that passed it
	oldest  uint32
	shift   uint   // 64 - log2(len(buckets))
	hand    uint64 // the bucket to be swept next
}

// bucket holds (slot + 1) << 32 | use; an empty place is a dead row.
type bucket [8]uint64

const (
	leastBuckets = 1 << 4
	// sweepSteps is in how many steps all buckets are swept: before a dead use could
	// be taken for one to come.
	sweepSteps = 1 << 10
	// touchBlock is how many slots are looked up together: their cache misses overlap
	// instead of coming one after the other.
	touchBlock = 64
)

func (x *rowTable) home(slot int32) uint64 {
	return uint64(uint32(slot)) * 0x9e3779b97f4a7c15 >> x.shift
}

func (x *rowTable) alive(use uint32) bool { return int32(use-x.oldest) >= 0 }

// touch reads the homes of some slots.
func (x *rowTable) touch(slots []int32) (sum uint64) {
	for _, slot := range slots {
		sum += x.buckets[x.home(slot)][0]
	}
	return sum
}

// match has bit j set where item j of a bucket is alive and of this key. It has no
// branches: which item it is cannot be foretold.
func (x *rowTable) match(b *bucket, key uint64) (bits uint32) {
	for j, item := range b {
		other := (item>>32 ^ key) - 1 // top bit set when equal
		bits |= uint32(other>>63) & (^(uint32(item) - x.oldest) >> 31) << j
	}
	return bits
}

// free has bit j set where item j of a bucket is dead.
func (x *rowTable) free(b *bucket) (bits uint32) {
	for j, item := range b {
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
	if b := &x.buckets[home&mask]; !x.alive(x.passed[home&mask]) {
		bit := x.match(b, key) // nearly always decides
		found = bit != 0
		if !found {
			bit = x.free(b)
		}
		if bit != 0 {
			item := &b[bits.TrailingZeros32(bit)&7]
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
			to, at = &b[bits.TrailingZeros32(bit)], i
		}
		if bit := x.match(b, key); bit != 0 {
			item := &b[bits.TrailingZeros32(bit)]
			before, found = uint32(*item), true
			if to != nil {
				*item = uint64(x.oldest - 1)
			} else {
				to, at = item, i
			}
			break
		}
		if to != nil && !x.alive(x.passed[i&mask]) {
			break
		}
	}
	*to = key<<32 | uint64(use)
	for i := home; i != at; i++ {
		if passed := &x.passed[i&mask]; int32(use-*passed) > 0 {
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
			return uint32(b[bits.TrailingZeros32(bit)])
		}
	}
}

// reserve makes room for n more rows when so many are alive, and moves the
// border between dead and alive to oldest.
func (x *rowTable) reserve(n, alive int, oldest uint32) {
	x.oldest = oldest
	x.sweep((len(x.buckets) + sweepSteps - 1) / sweepSteps)
	if 2*(alive+n) <= len(bucket{})*len(x.buckets) {
		return
	}
	old := x.buckets
	x.buckets = make([]bucket, max(leastBuckets, 1<<bits.Len(uint((alive+n)/4))))
	x.passed = make([]uint32, len(x.buckets))
	x.shift = uint(64 - bits.TrailingZeros(uint(len(x.buckets))))
	for i := range x.buckets {
		x.passed[i] = oldest - 1
		for j := range x.buckets[i] {
			x.buckets[i][j] = uint64(oldest - 1)
		}
	}
	for i := range old {
		for _, item := range old[i] {
			if x.alive(uint32(item)) {
				x.put(int32(item>>32-1), uint32(item))
			}
		}
	}
}

// sweep marks what is dead in the next few buckets as freshly dead.
func (x *rowTable) sweep(buckets int) {
	for range buckets {
		i := x.hand & uint64(len(x.buckets)-1)
		x.hand++
		for j, item := range x.buckets[i] {
			if !x.alive(uint32(item)) {
				x.buckets[i][j] = uint64(x.oldest - 1)
			}
		}
		if !x.alive(x.passed[i]) {
			x.passed[i] = x.oldest - 1
		}
	}
}
