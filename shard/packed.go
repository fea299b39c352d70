package shard

import (
	"slices"
	"sync/atomic"

	"github.com/ecrec/ecrec/kernels"
)

// packed is the places of rows in memory, which they get in the order of their first use. So the rows in use share pages: the first steps
// touch few pages, also where their rows are all over the tables, and the memory of a table is that of the rows in use.
// In the order of their slots each would take a page of its own.
//
// Invariant: a row has a place if and only if it was touched. Places 0 to used-1 are taken. A row with differsMark has its bit
// in hold.differs. Some rows with that bit do not have the mark, until they are written again.
type packed struct {
	places    []uint32 // 1 + the place of each slot, 0 if it has none; and differsMark
	used      uint32
	populated atomic.Int64 // places whose memory was taken ahead, by Populate
}

const (
	// placeBytes is the memory of the place of a row.
	placeBytes = 4
	// differsMark is the bit of places that is in no place, as a shard has at most MaxSlots slots. A write finds it in the cache line of
	// the place, which it needs: the bit in hold.differs would be another cache miss.
	differsMark = 1 << 31
)

func newPacked(slots int64) *packed {
	p := &packed{places: make([]uint32, slots)}
	kernels.HugePages(p.places)
	return p
}

// givePlace gives a row the next place, unless it has one.
func (p *packed) givePlace(slot int32) {
	if p != nil && p.places[slot] == 0 {
		p.used++
		p.places[slot] = p.used
	}
}

// placeOf returns the place of a row, which has one.
func (p *packed) placeOf(slot int32) int { return int(p.places[slot]&^differsMark) - 1 }

// isMarked reports whether a row has differsMark.
func (p *packed) isMarked(slot int32) bool { return p != nil && p.places[slot]&differsMark != 0 }

// mark gives a row differsMark. The row has a place.
func (p *packed) mark(slot int32) {
	if p != nil {
		p.places[slot] |= differsMark
	}
}

// unmark takes differsMark from a row.
func (p *packed) unmark(slot int32) {
	if p != nil {
		p.places[slot] &^= differsMark
	}
}

// takeBack takes all places back.
func (p *packed) takeBack() {
	if p == nil {
		return
	}
	p.populated.Store(0)
	if p.used > 0 { // else the list may have no memory yet
		clear(p.places)
		p.used = 0
	}
}

// nextPlaces returns the next places whose memory is to be taken ahead of their use.
func (p *packed) nextPlaces(n int) (first, count int) {
	first = int(p.populated.Add(int64(n))) - n
	return first, max(0, min(n, len(p.places)-first))
}

// placesOf returns the places of touched rows, in scratch. Without packing the place of a row is its slot.
func (p *packed) placesOf(scratch *[]int32, slots []int32) []int32 {
	if p == nil {
		return slots
	}
	*scratch = p.appendPlaces((*scratch)[:0], slots)
	return *scratch
}

// appendPlaces appends the places of touched rows.
func (p *packed) appendPlaces(places, slots []int32) []int32 {
	places = slices.Grow(places, len(slots))
	for i, slot := range slots {
		if i%aheadSlots == 0 {
			p.prefetchPlaces(slots, i)
		}
		places = append(places, int32(p.placeOf(slot)))
	}
	return places
}

// prefetchPlaces prefetches places while those of the slots from i on are read. i is a multiple of aheadSlots.
func (p *packed) prefetchPlaces(slots []int32, i int) {
	kernels.Prefetch(p.places, nextSlots(slots, i))
}

// aheadSlots is how many slots are worked on while what is read of later ones is prefetched. So few lines fit into the fill buffers of
// a core.
const aheadSlots = 16

// nextSlots returns the slots to prefetch at slot i, a multiple of aheadSlots: aheadSlots of them, twice as many slots ahead; at slot 0 all
// up to there.
func nextSlots(slots []int32, i int) []int32 {
	first, end := min(i+2*aheadSlots, len(slots)), min(i+3*aheadSlots, len(slots))
	if i == 0 {
		first = 0
	}
	return slots[first:end]
}

// eachRun calls do for runs of places that follow each other: n from places[i] on.
func eachRun(places []int32, do func(place, i, n int)) {
	for i := 0; i < len(places); {
		n := 1
		for i+n < len(places) && places[i+n] == places[i]+int32(n) {
			n++
		}
		do(int(places[i]), i, n)
		i += n
	}
}
