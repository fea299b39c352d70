package commit

import "math/bits"

// Members at equal distances. A rank that is lost owns millions of rows, and all ranks wait while their sets of rows, of stripes and of
// columns are compared: 64 members are moved at a time, and not one.

// stride moves the members at, at + step, at + 2*step, ... of a set, at < step, to 0, 1, 2, ... and back.
type stride struct {
	masks  []mask // by the first member in a word
	follow []int8 // the first member in the next word
}

// mask selects bits of a word. moves are the steps in which they are moved together: those of step i move by 2^i bits
// (Warren, Hacker's Delight, 2nd edition, sections 7-4 and 7-5).
type mask struct {
	all   uint64
	moves [6]uint64
	n     int
}

// mostStride is the longest distance for which words are moved. With a longer one a word has few members, which are moved one by one.
const mostStride = 16

func newStride(step int64) *stride {
	s := &stride{make([]mask, step), make([]int8, step)}
	for first := range step {
		m := &s.masks[first]
		for i := first; i < 64; i += step {
			m.all |= 1 << i
		}
		m.n = bits.OnesCount64(m.all)
		m.findMoves()
		s.follow[first] = int8((first + int64(m.n)*step) - 64)
	}
	return s
}

func (m *mask) findMoves() {
	all, gaps := m.all, ^m.all<<1
	for i := range m.moves {
		odd := gaps // bit j: whether there is an odd number of gaps up to j
		for d := 1; d < 64; d *= 2 {
			odd ^= odd << d
		}
		move := odd & all
		m.moves[i] = move
		all = all ^ move | move>>(1<<i)
		gaps &^= odd
	}
}

// compress moves the bits of a mask to the low end of a word.
func (m *mask) compress(word uint64) uint64 {
	v := &m.moves // without a loop: twice as fast
	word &= m.all
	x := word & v[0]
	word = word ^ x | x>>1
	x = word & v[1]
	word = word ^ x | x>>2
	x = word & v[2]
	word = word ^ x | x>>4
	x = word & v[3]
	word = word ^ x | x>>8
	x = word & v[4]
	word = word ^ x | x>>16
	x = word & v[5]
	word = word ^ x | x>>32
	return word
}

// expand moves the low bits of a word to those of a mask.
func (m *mask) expand(word uint64) uint64 {
	v := &m.moves
	word = word&^v[5] | word<<32&v[5]
	word = word&^v[4] | word<<16&v[4]
	word = word&^v[3] | word<<8&v[3]
	word = word&^v[2] | word<<4&v[2]
	word = word&^v[1] | word<<2&v[1]
	word = word&^v[0] | word<<1&v[0]
	return word & m.all
}

// pick returns a set with a member i < n for each member at + i*step of b.
func (b bitset) pick(at, step, n int64) bitset {
	picked := newBitset(n)
	if step > mostStride {
		for i := range n {
			picked[i>>6] |= b[at>>6] >> (at & 63) & 1 << (i & 63)
			at += step
		}
		return picked
	}
	s, first := newStride(step), int(at)
	for w, i := 0, int64(0); i < n; w++ {
		m := &s.masks[first]
		x := m.compress(b[w])
		if left := n - i; left < int64(m.n) {
			x &= 1<<left - 1
		}
		to, shift := i>>6, i&63
		picked[to] |= x << shift
		if int(shift)+m.n > 64 && to+1 < int64(len(picked)) {
			picked[to+1] = x >> (64 - shift)
		}
		i, first = i+int64(m.n), int(s.follow[first])
	}
	return picked
}

// spread calls visit for each word of a set: mask has the numbers at + i*step, i < n, in the word, and chosen those of them for which i is
// a member of from.
func (from bitset) spread(at, step, n int64, visit func(word int, mask, chosen uint64)) {
	s, first := newStride(step), int(at)
	for w, i := 0, int64(0); i < n; w++ {
		m := &s.masks[first]
		x := from[i>>6] >> (i & 63)
		if i>>6+1 < int64(len(from)) && i&63 != 0 {
			x |= from[i>>6+1] << (64 - i&63)
		}
		all := m.all
		if left := n - i; left < int64(m.n) {
			all = m.expand(1<<left - 1)
		}
		visit(w, all, m.expand(x)&all)
		i, first = i+int64(m.n), int(s.follow[first])
	}
}

// addAt adds at + i*step for each member i < n of from.
func (b bitset) addAt(at, step, n int64, from bitset) {
	if step > mostStride {
		for i := from.next(0, n); i < n; i = from.next(i+1, n) {
			b.set(at + i*step)
		}
		return
	}
	from.spread(at, step, n, func(word int, _, chosen uint64) { b[word] |= chosen })
}

// keepAt removes at + i*step for each i < n that is not a member of from. It returns how many members it has removed.
func (b bitset) keepAt(at, step, n int64, from bitset) (dropped int64) {
	if step > mostStride {
		for i := range n {
			if x := at + i*step; !from.has(i) && b.has(x) {
				b.unset(x)
				dropped++
			}
		}
		return dropped
	}
	from.spread(at, step, n, func(word int, mask, chosen uint64) {
		gone := b[word] & mask &^ chosen
		b[word] ^= gone
		dropped += int64(bits.OnesCount64(gone))
	})
	return dropped
}
