package data

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
)

// random returns a generator whose seed is printed when the test fails.
func random(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

func TestOrderIsAPermutationOfEachEpoch(t *testing.T) {
	rnd := random(t)
	for round := range 60 {
		o := Order{
			Samples: 1 + rnd.Int64N([]int64{10, 5000, 40000}[round%3]),
			Batch:   1 + rnd.IntN(3000),
			Shuffle: round%4 != 0,
			Seed:    rnd.Uint64(),
		}
		epoch := rnd.Int64N(5)
		seen := make([]bool, o.Samples)
		total := int64(0)
		var slice, batch []int64
		for k := int64(1); k <= o.StepsPerEpoch(); k++ {
			step := epoch*o.StepsPerEpoch() + k
			batch = slices.Clone(o.Slice(step, 0, 1, nil))
			if len(batch) != o.BatchSize(step) {
				t.Fatalf("%+v step %d: %d samples, BatchSize says %d", o, step, len(batch), o.BatchSize(step))
			}
			for n := 2; n <= 5; n++ {
				var joined []int64
				for i := range n {
					slice = o.Slice(step, i, n, slice)
					if want := (i+1)*len(batch)/n - i*len(batch)/n; len(slice) != want {
						t.Fatalf("%+v step %d: trainer %d of %d gets %d samples, want %d", o, step, i, n, len(slice), want)
					}
					joined = append(joined, slice...)
				}
				if !slices.Equal(joined, batch) {
					t.Fatalf("%+v step %d: the slices of %d trainers are not the batch", o, step, n)
				}
			}
			for _, s := range batch {
				if s < 0 || s >= o.Samples || seen[s] {
					t.Fatalf("%+v step %d: sample %d is outside or comes twice", o, step, s)
				}
				seen[s] = true
			}
			total += int64(len(batch))
		}
		if total != o.Samples {
			t.Fatalf("%+v: %d samples in an epoch", o, total)
		}
	}
}

func TestOrderShuffles(t *testing.T) {
	o := Order{Samples: 100_000, Batch: 100_000, Shuffle: true, Seed: 3}
	a := slices.Clone(o.Slice(1, 0, 1, nil))
	if b := o.Slice(2, 0, 1, nil); slices.Equal(a, b) {
		t.Error("two epochs have the same order")
	}
	o.Seed++
	if b := o.Slice(1, 0, 1, nil); slices.Equal(a, b) {
		t.Error("two seeds give the same order")
	}
	// Neighbours in the order are neighbours in the file about once in all.
	next, moved := 0, 0
	for i := range a[1:] {
		if a[i+1] == a[i]+1 {
			next++
		}
		if a[i]/shuffleBlock != int64(i)/shuffleBlock {
			moved++
		}
	}
	if next > 100 || moved < len(a)/2 {
		t.Errorf("%d of %d samples follow their neighbour, %d changed their block", next, len(a), moved)
	}
	o.Shuffle = false
	if b := o.Slice(1, 1, 2, nil); b[0] != 50_000 || b[len(b)-1] != 99_999 {
		t.Errorf("without shuffling slice 1 of 2 is [%d, %d]", b[0], b[len(b)-1])
	}
}

// The order of a run must never change: digests depend on it.
func TestOrderIsFixed(t *testing.T) {
	o := Order{Samples: 10_000, Batch: 5, Shuffle: true, Seed: 42}
	got := append(slices.Clone(o.Slice(1, 0, 1, nil)), o.Slice(2001, 0, 1, nil)...)
	want := []int64{2008, 8, 3078, 708, 665, 9904, 9758, 8413, 8821, 9513}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPermutationOfSmallDomains(t *testing.T) {
	for n := int64(1); n < 300; n++ {
		p := newPermutation(n, uint64(n))
		seen := make([]bool, n)
		for x := range n {
			y := p.mapIndex(uint64(x))
			if y >= uint64(n) || seen[y] {
				t.Fatalf("n = %d: %d -> %d is outside or comes twice", n, x, y)
			}
			seen[y] = true
		}
	}
}

func TestModulo(t *testing.T) {
	rnd := random(t)
	for range 200_000 {
		d := 1 + rnd.Int64N(maxRows)>>rnd.IntN(32)
		m := newModulo(d)
		for _, x := range []uint32{rnd.Uint32(), 0, 1, 1<<32 - 1, uint32(d), uint32(d - 1)} {
			if got := m.of32(x); int64(got) != int64(x)%d {
				t.Fatalf("%d mod %d = %d", x, d, got)
			}
		}
		if x := rnd.Uint64(); uint64(m.of64(x)) != x%uint64(d) {
			t.Fatalf("%d mod %d = %d", x, d, m.of64(x))
		}
	}
}

func BenchmarkOrder(b *testing.B) {
	o := Order{Samples: 40_000_000, Batch: 2048, Shuffle: true, Seed: 3}
	var dst []int64
	for i := range b.N {
		dst = o.Slice(int64(i+1), 0, 2, dst)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*1024), "ns/sample")
}

// Texts have the hash of the library, whatever their length.
func TestHashText(t *testing.T) {
	rnd := random(t)
	text := make([]byte, 300)
	for n := range text {
		for i := range text {
			text[i] = byte(rnd.Uint32())
		}
		if got, want := hashText(text[:n]), xxh3.Hash(text[:n]); got != want {
			t.Errorf("%d bytes: %x, want %x", n, got, want)
		}
	}
}
