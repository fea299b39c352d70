package auc

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// pairs is the definition: the share of (positive, negative) pairs in which the
// positive scores higher, ties counting half.
func pairs(p []float32, y []bool) float64 {
	var wins, all float64
	for i := range p {
		for j := range p {
			if y[i] && !y[j] {
				all++
				switch {
				case p[i] > p[j]:
					wins++
				case p[i] == p[j]:
					wins += 0.5
				}
			}
		}
	}
	return wins / all
}

func TestAgainstDefinitionOnAnyNumberOfRanks(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		n := 2 + r.IntN(300)
		levels := 1 + r.IntN(2*n) // few levels: many ties
		p, y := make([]float32, n), make([]bool, n)
		for i := range p {
			p[i] = float32(r.IntN(levels+1)) / float32(levels)
			y[i] = r.IntN(3) == 0
		}
		y[0], y[1] = true, false
		want := pairs(p, y)
		for _, ranks := range []int{1, 2, 3, 8} {
			if got := spread(p, y, ranks); got != want {
				t.Fatalf("%d predictions on %d ranks: %v, want %v", n, ranks, got, want)
			}
		}
	}
}

func spread(p []float32, y []bool, ranks int) float64 {
	h := make([]uint64, Buckets)
	all := make([]Packed, len(p))
	for i := range p {
		all[i] = Pack(p[i], y[i])
	}
	Histogram(h, all)
	cut := Splitters(h, ranks)
	parts := make([][]Packed, ranks)
	for _, w := range all {
		r := Range(cut, w)
		parts[r] = append(parts[r], w)
	}
	sums := make([]Partial, ranks)
	for r := range parts {
		sums[r] = Sum(parts[r])
	}
	auc, _ := Combine(sums)
	return auc
}

func TestUndefinedWithOneClass(t *testing.T) {
	if _, ok := Combine([]Partial{Sum([]Packed{Pack(0.5, true)})}); ok {
		t.Fatal("an AUC without negatives")
	}
}

func TestSortPredictions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, radixFewest - 1, radixFewest, 3*radixFewest + 1} {
		for _, levels := range []int{1, 7, 1 << 24} {
			got := make([]Packed, n)
			for i := range got {
				got[i] = Pack(float32(r.IntN(levels+1))/float32(levels), r.IntN(2) == 0)
			}
			want := slices.Clone(got)
			slices.Sort(want)
			if sortPredictions(got); !slices.Equal(got, want) {
				t.Errorf("%d predictions of %d levels are not in order", n, levels)
			}
		}
	}
}
