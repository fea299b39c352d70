package commit

import "math/bits"

// bitset is a set of numbers below a limit, with a bit for each.
type bitset []uint64

func newBitset(n int64) bitset { return make(bitset, (n+63)/64) }

func (b bitset) has(i int64) bool { return b[i>>6]>>(i&63)&1 != 0 }
func (b bitset) set(i int64)      { b[i>>6] |= 1 << (i & 63) }
func (b bitset) unset(i int64)    { b[i>>6] &^= 1 << (i & 63) }

// fill adds the numbers below n.
func (b bitset) fill(n int64) {
	for i := range b[:n>>6] {
		b[i] = ^uint64(0)
	}
	if n&63 != 0 {
		b[n>>6] = 1<<(n&63) - 1
	}
}

// next returns the first member that is i or larger, n if there is none below n.
func (b bitset) next(i, n int64) int64 {
	for i < n {
		if word := b[i>>6] >> (i & 63); word != 0 {
			return min(i+int64(bits.TrailingZeros64(word)), n)
		}
		i = (i>>6 + 1) << 6
	}
	return n
}

// count returns the number of members.
func (b bitset) count() (n int64) {
	for _, word := range b {
		n += int64(bits.OnesCount64(word))
	}
	return n
}
