package train

import (
	"slices"
	"testing"

	"github.com/ecrec/ecrec/collectives"
)

// The buckets of up to 64 trainers are reduced one by one. Those of more trainers are joined and cut, without gaps, and as early as their
// floats are final. No range but the last one has a chunk that is not full.
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
		ranges := joinBuckets(buckets, trainers)
		if trainers <= 64 {
			if !slices.Equal(ranges, buckets) {
				t.Fatalf("%d trainers: %v, want %v", trainers, ranges, buckets)
			}
			continue
		}
		var g gradRanges
		g.ofTrainers(trainers)
		final, at := 0, 0
		for i, b := range append(buckets, 0) {
			final += b
			from, n := g.addBucket(b)
			if i == len(buckets) {
				from, n = g.takeRest()
			}
			if from != at && n > 0 || at+n > final || final-at-n >= g.unit {
				t.Fatalf("%d trainers, buckets %v: range of %d floats from %d on, when %d are final and %d are in ranges", trainers, buckets, n, from, final, at)
			}
			at += n
		}
		if at != all {
			t.Fatalf("%d trainers, buckets %v: %d floats are in ranges, want %d", trainers, buckets, at, all)
		}
		rank := r.IntN(trainers)
		var sent int64
		for _, n := range ranges {
			sent += collectives.AllReduceSent(trainers, rank, n, false).Messages
		}
		// A chunk of a range is a part for each other rank, and a sum for each.
		if most := int64((all+g.unit-1)/g.unit) * int64(2*(trainers-1)); sent > most {
			t.Fatalf("%d trainers, buckets %v: rank %d sends %d messages, at most %d are needed", trainers, buckets, rank, sent, most)
		}
	}
}
