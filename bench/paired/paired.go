package paired

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// LeastPairs is the least number of pairs with a 95 % interval. Between the least and the greatest of 5 values the
// median is in 94 % of all runs, of 6 in 97 %.
const LeastPairs = 6

// draws is the number of medians of the bootstrap.
const draws = 2_000

// Interval is the median of the values of some pairs, with its 95 % interval.
type Interval struct {
	Pairs             int
	Median, Low, High float64
}

// Ratios returns a[i] / b[i] of each pair. It panics if the lengths differ.
func Ratios(a, b []float64) []float64 {
	if len(a) != len(b) {
		panic(fmt.Sprintf("paired: %d values beside %d", len(a), len(b)))
	}
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	return ratios
}

// Of returns the interval of the median of some values, one of each pair. It panics if there is none.
func Of(values []float64) Interval {
	v := slices.Clone(values)
	slices.Sort(v)
	n := len(v)
	i := Interval{Pairs: n, Median: medianOf(v), Low: v[0], High: v[n-1]}
	if i.IsKnown() {
		low, high := bootstrap(v)
		rank := signRank(n)
		i.Low, i.High = min(low, v[rank]), max(high, v[n-1-rank])
	}
	return i
}

// IsKnown reports whether there are enough pairs for an interval of 95 %.
func (i Interval) IsKnown() bool { return i.Pairs >= LeastPairs }

// Holds reports whether x is in the interval.
func (i Interval) Holds(x float64) bool { return i.Low <= x && x <= i.High }

// IsApart reports whether the values differ from x: there are enough pairs, and x is not in the interval.
func (i Interval) IsApart(x float64) bool { return i.IsKnown() && !i.Holds(x) }

// Text returns the interval with a number of decimals, the number of pairs, and the verdict beside equal, the value of two ways
// that do not differ: 1 for a ratio, 0 for a difference.
func (i Interval) Text(decimals int, equal float64) string {
	text := fmt.Sprintf("%.*f to %.*f, %s", decimals, i.Low, decimals, i.High, pairsText(i.Pairs))
	switch {
	case !i.IsKnown():
		return text + ": too few"
	case i.Holds(equal):
		return text + ", not told apart"
	}
	return text
}

func pairsText(n int) string {
	if n == 1 {
		return "1 pair"
	}
	return fmt.Sprintf("%d pairs", n)
}

// medianOf returns the median of sorted values.
func medianOf(v []float64) float64 {
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// bootstrap returns the percentile interval of the medians of values drawn again.
func bootstrap(v []float64) (low, high float64) {
	random := rand.New(rand.NewPCG(1, 2))
	n := len(v)
	medians, drawn := make([]float64, draws), make([]int, n) // how often each value was drawn
	for i := range medians {
		clear(drawn)
		for range n {
			drawn[random.IntN(n)]++
		}
		medians[i] = (nth(v, drawn, (n-1)/2) + nth(v, drawn, n/2)) / 2
	}
	slices.Sort(medians)
	return medians[draws*25/1000], medians[draws*975/1000-1]
}

// nth returns the value at a place of the drawn ones, in order.
func nth(v []float64, drawn []int, place int) float64 {
	for i, times := range drawn {
		if place -= times; place < 0 {
			return v[i]
		}
	}
	return v[len(v)-1]
}

// signRank returns the greatest r for which the median is between the r-th value from either end, counted from 0, in at least
// 95 % of all runs: at most r of n values are then below it in less than 2.5 %.
func signRank(n int) int {
	const exact = 1000 // 2^-n is a normal number
	if n > exact {
		return int(float64(n)/2-0.98*math.Sqrt(float64(n))) - 1 // by the normal distribution
	}
	chance, below, r := math.Ldexp(1, -n), 0.0, -1 // of k of n values below
	for k := 0; k < n; k++ {
		if below += chance; below > 0.025 {
			break
		}
		chance *= float64(n-k) / float64(k+1)
		r = k
	}
	return max(r, 0)
}
