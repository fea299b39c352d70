package baseline

import (
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/oracle"
)

// Stream is the ids of some steps.
type Stream struct {
	Place    placement.Map // of as many owners as there are ranks
	Features int           // each looks up a table of its own, with one id
	// IDs returns the ids of a rank's slice, by sample and feature. Steps count from 0. The result is valid until the next call.
	IDs   func(step, rank int) []uint32
	Steps int
}

// lookupsOf returns the row of each lookup of a slice.
func (s *Stream) lookupsOf(step, rank int) []int32 {
	ids := s.IDs(step, rank)
	rows := make([]int32, len(ids))
	for l, id := range ids {
		rows[l] = int32(s.Place.Base[l%s.Features] + int64(id))
	}
	return rows
}

// usesOf returns the distinct rows of each rank's slice, in the order of its plan.
func (s *Stream) usesOf(step int) [][]int32 {
	n := s.Place.Owners
	all := make([][]int32, n)
	var plan oracle.Plan
	for r := range all {
		plan.Fill(s.Place, oracle.Lookups{IDs: s.IDs(step, r)})
		at := 0
		for o, k := range plan.PerOwner {
			for _, slot := range plan.Slots[at : at+k] {
				all[r] = append(all[r], int32(s.Place.Global(o, int64(slot))))
			}
			at += k
		}
	}
	return all
}

// ownerOf returns the owner of a row, and its slot there.
func (s *Stream) ownerOf(g int32) (owner int, slot int32) {
	n := int32(s.Place.Owners)
	return int(g % n), g / n
}
