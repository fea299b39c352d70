package oracle

import "math/bits"

// sorter sorts words by some of their bits. It is a stable radix sort, least significant
// digit first.
type sorter struct {
	spare []uint64
	next  []int32
}

// maxDigitBits limits a radix digit, so that its counters stay in the cache.
const maxDigitBits = 13

// sortWords sorts words by the keyBits bits from bit low. The caller must use the result
// in place of words, whose memory the sorter keeps.
func (s *sorter) sortWords(words []uint64, low, keyBits int) []uint64 {
	if keyBits == 0 || len(words) < 2 {
		return words
	}
	// With few words a digit has few values, because clearing the counters also costs
	// time.
	most := min(bits.Len(uint(len(words))), maxDigitBits)
	passes := (keyBits + most - 1) / most
	digit := (keyBits + passes - 1) / passes
	s.spare = resize(s.spare, len(words))
	s.next = resize(s.next, 1<<digit)
	for shift := low; shift < low+keyBits; shift += digit {
		s.sortDigit(words, uint(shift))
		words, s.spare = s.spare, words
	}
	return words
}

// sortDigit sorts words into spare by the digit at shift.
func (s *sorter) sortDigit(words []uint64, shift uint) {
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
