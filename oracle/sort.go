package oracle

import "math/bits"

// sorter sorts words by some of their bits, stably: a radix sort, least
// significant digit first.
type sorter struct {
	words, spare []uint64
	next         []int32
}

// maxDigitBits bounds a radix digit: its counters stay in the cache.
const maxDigitBits = 13

// run sorts words by keyBits bits from low on.
func (s *sorter) run(low, keyBits int) {
	if keyBits == 0 || len(s.words) < 2 {
		return
	}
	// A digit of few words has few values: setting up counters costs as well.
	most := min(bits.Len(uint(len(s.words))), maxDigitBits)
	passes := (keyBits + most - 1) / most
	digit := (keyBits + passes - 1) / passes
	s.spare = resize(s.spare, len(s.words))
	s.next = resize(s.next, 1<<digit)
	for shift := low; shift < low+keyBits; shift += digit {
		s.pass(uint(shift))
	}
}

// pass sorts words by the digit at shift.
func (s *sorter) pass(shift uint) {
	words, spare, next := s.words, s.spare, s.next
	mask := uint64(len(next) - 1)
	clear(next)
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
	s.words, s.spare = spare, words
}
