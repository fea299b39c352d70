package oracle

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// MarkCommon marks what a search finds.
func TestMarkCommon(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ascending := func() []int32 {
		list := make([]int32, r.IntN(40))
		for i := range list {
			list[i] = r.Int32N(60)
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	for range 1000 {
		a, b := ascending(), ascending()
		classes := slices.Repeat([]uint8{1}, len(a))
		MarkCommon(classes, a, b, 4)
		for i, x := range a {
			want := uint8(1)
			if _, ok := slices.BinarySearch(b, x); ok {
				want |= 4
			}
			if classes[i] != want {
				t.Fatalf("%v in %v: %d is marked %d, want %d", a, b, x, classes[i], want)
			}
		}
	}
}
