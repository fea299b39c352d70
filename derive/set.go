package derive

import "math/bits"

// slotSet is a set of slots of one owner.
type slotSet struct {
	words []uint64
	n     int64
	from  int // no word before it has a bit
}

func newSlotSet(slots int64) *slotSet { return &slotSet{words: make([]uint64, (slots+63)/64)} }

// addSlot adds a slot.
func (s *slotSet) addSlot(slot int64) {
	w, bit := &s.words[slot>>6], uint64(1)<<(slot&63)
	if *w&bit == 0 {
		*w |= bit
		s.n++
		s.from = min(s.from, int(slot>>6))
	}
}

// addAll adds the slots of a bit map.
func (s *slotSet) addAll(words []uint64) {
	s.n, s.from = 0, 0
	for i, w := range words {
		s.words[i] |= w
		s.n += int64(bits.OnesCount64(s.words[i]))
	}
}

// removeAll removes all slots.
func (s *slotSet) removeAll() {
	clear(s.words)
	s.n, s.from = 0, 0
}

// removeFirst removes the lowest slots, at most some of them, and calls f with each.
func (s *slotSet) removeFirst(most int64, f func(slot int64)) (n int64) {
	for ; s.n > 0 && n < most; s.from++ {
		for w := &s.words[s.from]; *w != 0 && n < most; n++ {
			slot := bits.TrailingZeros64(*w)
			*w &= *w - 1
			s.n--
			f(int64(s.from)<<6 + int64(slot))
		}
		if s.words[s.from] != 0 {
			break
		}
	}
	return n
}
