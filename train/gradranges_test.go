package train

import (
	"slices"
	"testing"
)

// The buckets of up to 64 trainers are reduced one by one. Those of more trainers are joined, in order and without gaps.
func TestGradRanges(t *testing.T) {
	r := seeded(t)
	for range 1000 {
		buckets, all := []int{}, 0
		for range r.IntN(20) {
			buckets = append(buckets, 1<<18+r.IntN(1<<r.IntN(24)))
		}
		if r.IntN(2) == 0 {
			buckets = append(buckets, 1+r.IntN(1<<18))
		}
		for _, n := range buckets {
			all += n
		}
		trainers := 1 + r.IntN(1<<r.IntN(13))
		got := joinBuckets(buckets, trainers)
		if trainers <= 64 && !slices.Equal(got, buckets) {
			t.Fatalf("%d trainers: %v, want %v", trainers, got, buckets)
		}
		at, least := 0, trainers*4096
		for i, n := range got {
			k := 0 // buckets of the range
			for rest := n; rest > 0; rest, at = rest-buckets[at], at+1 {
				k++
			}
			if last := i == len(got)-1; !last && n < least || k > 1 && n-buckets[at-1] >= least {
				t.Fatalf("%d trainers, buckets %v: range %d of %v has %d buckets, at least %d floats are wanted", trainers, buckets, i, got, k, least)
			}
			all -= n
		}
		if all != 0 || at != len(buckets) {
			t.Fatalf("%d trainers: %v, of buckets %v", trainers, got, buckets)
		}
	}
}
