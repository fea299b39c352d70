package oracle

import "math/bits"

// sorter sorts words by some of their bits, stably: a radix sort, least
// significant digit first.
type sorter struct {
	spare []uint64
	next  []int32
}

// maxDigitBits bounds a radix digit: its counters stay in the cache.
const maxDigitBits = 13

// run sorts words by keyBits bits from low on; what it returns takes the place of
// words, which it keeps.
func (s *sorter) run(words []uint64, low, keyBits int) []uint64 {
	if keyBits == 0 || len(words) < 2 {
		return words
	}
	// A digit of few words has few values: setting up counters costs as well.
	most := min(bits.Len(uint(len(words))), maxDigitBits)
	passes := (keyBits + most - 1) / most
	digit := (keyBits + passes - 1) / passes
	s.spare = resize(s.spare, len(words))
	s.next = resize(s.next, 1<<digit)
	for shift := low; shift < low+keyBits; shift += digit {
		s.pass(words, uint(shift))
		words, s.spare = s.spare, words
	}
	return words
}

// pass sorts words by the digit at shift into spare.
func (s *sorter) pass(words []uint64, shift uint) {
	spare, next := s.spare, s.next
	clear(next)
	mask := uint64(len(next) - 1)
	for _, w := range words {
		next[w>>(shift&63)&mask]++
	}
	sum := int32(0)
	for d, n := range next {
		next[d] = sum
		sum += n
	}
	for _, w := range words {
		d := w >> (shift & 63) & mask
		i := next[d]
		next[d] = i + 1
		spare[i] = w
	}
}
