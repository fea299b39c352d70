package data

import (
	"math"
	"testing"
)

// With tails, tables of any size have one shape: lookups beside the hottest tenth of the rows are as frequent in all. Without, only the
// larger ones have a tail.
func TestTailsHaveOneShape(t *testing.T) {
	tables := []int64{5_263, 42_109, 84_017, 336_871}
	for _, law := range Laws {
		if law == LawBursts {
			continue
		}
		s, err := newSyntheticOf(Schema{Dense: criteoDense, Tables: tables}, 1, nil, law)
		if err != nil {
			t.Fatal(err)
		}
		rnd := random(t)
		for f, rows := range tables {
			const draws = 100_000
			beside := 0
			for range draws {
				if int64(s.skews[f].drawRank(rnd.Uint64())) >= rows/10 {
					beside++
				}
			}
			got, want := float64(beside)/draws, 0.5*(1-math.Pow(0.1, 0.25))
			if hasTail := law == LawTails || rows >= longTailRows; !hasTail {
				want = 0
			}
			if math.Abs(got-want) > 0.01 {
				t.Errorf("%s, %d rows: %.4f of the lookups are beside the hottest tenth, want %.4f", law, rows, got, want)
			}
		}
	}
}

func TestTailsAreAFunctionOfSeedAndIndex(t *testing.T) {
	checkSamples(t, LawTails, []int64{0, 1, math.MaxInt64 - 1, 12_345})
}

// Tails must never change: digests depend on them.
func TestTailsAreFixed(t *testing.T) {
	s := mustOpen(t, Options{Format: FormatSynthetic, Tables: kaggle(t), Seed: 42, Law: LawTails})
	var b Batch
	if err := s.Read(&b, Order{Samples: s.Len(), Batch: 2000}.Slice(3, 0, 1, nil)); err != nil {
		t.Fatal(err)
	}
	sum := uint64(0)
	for _, x := range b.IDs {
		sum = mix(sum + golden + uint64(x))
	}
	for _, x := range b.Labels {
		sum = mix(sum + golden + uint64(math.Float32bits(x)))
	}
	if want := uint64(0x8b934ba5f7842bf6); sum != want {
		t.Errorf("the samples' hash is %#x, want %#x", sum, want)
	}
}
