package auc

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Packed is a prediction: the bits of a probability, which order as unsigned
// integers as the probabilities do, then one bit of label.
type Packed = uint32

// Pack packs a probability in [0, 1] and its label.
func Pack(p float32, positive bool) Packed {
	if !(p >= 0 && p <= 1) {
		panic(fmt.Sprintf("auc: %v is not a probability", p))
	}
	w := math.Float32bits(p) << 1 // at most 0x3F800000 << 1: one bit to spare
	if positive {
		w |= 1
	}
	return w
}

// Buckets is the length of a histogram.
const Buckets = 1 << 12

// bucket maps a prediction to its histogram bucket, ascending with the score.
func bucket(w Packed) int { return int(w >> (31 - 12)) }

// Histogram adds the predictions to h, which has Buckets entries.
func Histogram(h []uint64, predictions []Packed) {
	for _, w := range predictions {
		h[bucket(w)]++
	}
}

// Splitters divides the score range over n ranks by the histogram of all
// predictions: rank r takes the buckets [cut[r], cut[r+1]).
func Splitters(h []uint64, n int) (cut []int) {
	var total, below uint64
	for _, c := range h {
		total += c
	}
	cut = make([]int, n+1)
	r := 1
	for b, c := range h {
		for ; r < n && below >= total/uint64(n)*uint64(r); r++ {
			cut[r] = b
		}
		below += c
	}
	for ; r <= n; r++ {
		cut[r] = len(h)
	}
	return cut
}

// Range returns the rank that takes a prediction.
func Range(cut []int, w Packed) int {
	b := bucket(w)
	r, found := slices.BinarySearch(cut, b)
	if !found {
		return r - 1
	}
	// Of ranks with empty ranges at b, the last one holds it.
	for r+1 < len(cut) && cut[r+1] == b {
		r++
	}
	return r
}

// Partial is the contribution of one range of scores.
type Partial struct {
	// Wins counts, twice, the (positive, negative) pairs within the range in which
	// the positive scores higher, and once the ties.
	Wins uint64
	// Positives and Negatives count the labels in the range.
	Positives, Negatives uint64
}

// Sum sorts the predictions of one range in place and counts them.
func Sum(predictions []Packed) Partial {
	sortPredictions(predictions)
	var s Partial
	for i := 0; i < len(predictions); {
		var pos, neg uint64
		score := predictions[i] >> 1
		for ; i < len(predictions) && predictions[i]>>1 == score; i++ {
			pos += uint64(predictions[i] & 1)
			neg += uint64(^predictions[i] & 1)
		}
		s.Wins += pos * (2*s.Negatives + neg)
		s.Positives += pos
		s.Negatives += neg
	}
	return s
}

// digitBits is the size of a digit of a radix sort: three make a Packed, whose highest bit is 0.
const digitBits = 11

// radixFewest is the number of predictions from which a radix sort is faster than a sort by comparisons.
const radixFewest = 1 << 12

// sortPredictions sorts in ascending order.
func sortPredictions(a []Packed) {
	if len(a) < radixFewest {
		slices.Sort(a)
		return
	}
	const digits, mask = 3, 1<<digitBits - 1
	var next [digits][1 << digitBits]int // of each digit: the place of the next prediction that has it
	for _, w := range a {
		for d := range next {
			next[d][w>>(d*digitBits)&mask]++
		}
	}
	from, to := a, make([]Packed, len(a))
	for d := range next {
		at := 0
		for i, n := range next[d] {
			next[d][i] = at
			at += n
		}
		for _, w := range from {
			p := &next[d][w>>(d*digitBits)&mask]
			to[*p] = w
			*p++
		}
		from, to = to, from
	}
	copy(a, from)
}

// Combine returns the AUC of ranges in ascending order of score; ok is false
// when there are no positives or no negatives, and the AUC is undefined.
func Combine(ranges []Partial) (auc float64, ok bool) {
	var wins, pos, neg uint64
	for _, r := range ranges {
		hi, cross := bits.Mul64(2*r.Positives, neg)
		var carry uint64
		wins, carry = bits.Add64(wins, cross, 0)
		if hi != 0 || carry != 0 {
			panic("auc: more than 2^63 pairs")
		}
		wins += r.Wins
		pos += r.Positives
		neg += r.Negatives
	}
	if pos == 0 || neg == 0 {
		return 0, false
	}
	return float64(wins) / (2 * float64(pos) * float64(neg)), true
}
