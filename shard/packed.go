package shard

import (
	"sync/atomic"

	"github.com/ecrec/ecrec/kernels"
)

// packed is the places of rows in memory, which they get in the order of their first use. So the rows in use share pages: the first steps
// touch few pages, also where their rows are all over the tables, and the memory of a table is that of the rows in use.
// In the order of their slots each would take a page of its own.
//
// Invariant: a row has a place if and only if it was touched. Places 0 to used-1 are taken.
type packed struct {
	places    []uint32 // 1 + the place of each slot, 0 if it has none
	used      uint32
	populated atomic.Int64 // places whose memory was taken ahead, by Populate
}

// placeBytes is the memory of the place of a row.
const placeBytes = 4

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
func (p *packed) placeOf(slot int32) int { return int(p.places[slot]) - 1 }

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
	if cap(*scratch) < len(slots) {
		*scratch = make([]int32, len(slots)+len(slots)/2)
	}
	places := (*scratch)[:len(slots)]
	for i, slot := range slots {
		places[i] = int32(p.places[slot]) - 1
	}
	return places
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
