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

// Rows get places of their own: at random within the memory that they are spread over, and one after the other beyond it.
func TestPlacedRows(t *testing.T) {
	const bytes, rows = 64, 1000
	for _, spread := range []int64{0, 100 * bytes, 2 * rows * bytes} {
		w := writtenRows{spread: spread}
		r := w.newPlacedRows(bytes, rows)
		within := int(min(rows, spread/bytes))
		if r.rows() != within {
			t.Fatalf("spread over %d bytes: memory of %d rows, want %d", spread, r.rows(), within)
		}
		first := r.placesOf([]int32{7, 3, 7, 500})
		if first[0] != first[2] || !slices.Equal(first, r.placesOf([]int32{7, 3, 7, 500})) {
			t.Fatalf("spread over %d bytes: places %v of slots 7, 3, 7 and 500", spread, first)
		}
		slots := make([]int32, 200)
		for i := range slots {
			slots[i] = int32(5 * i)
		}
		places := r.placesOf(slots)
		if spread > 0 && slices.IsSorted(places[:50]) {
			t.Fatalf("spread over %d bytes: places %v", spread, places)
		}
		sorted := slices.Sorted(slices.Values(places))
		if len(slices.Compact(slices.Clone(sorted))) != len(slots) || sorted[0] < 0 || int(sorted[len(sorted)-1]) >= r.rows() {
			t.Fatalf("spread over %d bytes: places %v in memory of %d rows", spread, places, r.rows())
		}
	}
}
