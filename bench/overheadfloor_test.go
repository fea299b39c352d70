package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ecrec/ecrec/ec"
)

// The lists of the floor have each row of an epoch once as a pre-image, and for each parity once as a delta.
func TestFloorLists(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		c := overheadCase{ec.RS, 1 + r.IntN(6), 1 + r.IntN(3), 1 + r.IntN(12)}
		slots := []int32{}
		for slot := range int32(400) {
			if r.IntN(3) == 0 {
				slots = append(slots, slot)
			}
		}
		e := listFloor(c, slots)
		first := slices.Concat(e.first...)
		for i, slot := range e.slots {
			if first[e.places[i]] != slot {
				t.Fatalf("%v: slot %d is not at place %d of the pre-images", c, slot, e.places[i])
			}
		}
		slices.Sort(first)
		if !slices.Equal(first, slots) {
			t.Fatalf("%v: pre-images of %v, not of %v", c, first, slots)
		}
		parities := 0
		for _, list := range e.parity {
			parities += len(list)
			if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
				t.Fatalf("%v: one fold adds to parity rows %v", c, list)
			}
		}
		if n := c.r * len(slots); len(e.slots) != n || len(e.places) != n || len(e.from) != n || parities != n {
			t.Fatalf("%v: %d, %d, %d and %d rows, not %d", c, len(e.slots), len(e.places), len(e.from), parities, n)
		}
	}
}
