package report

import (
	"math/bits"
	"time"
)

// Quantiles counts durations in buckets whose width is at most 1/128 of the duration. It needs 64
// KiB for any number of durations. The zero Quantiles is empty.
type Quantiles struct {
	buckets [64 << subBits]uint64
	count   uint64
	low     time.Duration
	high    time.Duration
}

const subBits = 7 // 128 buckets per doubling

// Add counts one duration; a negative one counts as zero.
func (q *Quantiles) Add(d time.Duration) {
	d = max(d, 0)
	if q.count == 0 || d < q.low {
		q.low = d
	}
	q.high = max(q.high, d)
	q.buckets[bucket(uint64(d))]++
	q.count++
}

// Count returns the number of durations.
func (q *Quantiles) Count() uint64 { return q.count }

// bucket returns the bucket of a duration: below 256 ns one for each ns, then 128 for each doubling.
func bucket(ns uint64) int {
	shift := max(bits.Len64(ns)-subBits-1, 0)
	return shift<<subBits + int(ns>>shift)
}

// middle returns the duration in the middle of a bucket.
func middle(b int) uint64 {
	shift := max(b>>subBits-1, 0)
	low := uint64(b-shift<<subBits) << shift
	return low + (uint64(1)<<shift)/2
}

// Of returns the duration that a share p (0 to 1) of all does not exceed, 0 if there are none.
func (q *Quantiles) Of(p float64) time.Duration {
	rank := uint64(p * float64(q.count))
	if rank >= q.count {
		return q.high
	}
	var seen uint64
	for b, n := range q.buckets {
		seen += n
		if seen > rank {
			return min(max(time.Duration(middle(b)), q.low), q.high)
		}
	}
	return 0
}

// StepMS returns the median and the 99th percentile.
func (q *Quantiles) StepMS() StepMS {
	ms := func(d time.Duration) Number { return Number(float64(d) / float64(time.Millisecond)) }
	return StepMS{P50: ms(q.Of(0.5)), P99: ms(q.Of(0.99))}
}
