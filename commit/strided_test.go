package commit

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestStrided compares members that are moved by words with members that are moved one by one.
func TestStrided(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		step := 1 + r.Int64N(2*mostStride)
		at, n, density := r.Int64N(step), r.Int64N(400), 1+r.IntN(8)
		random := func(n int64) bitset {
			b := newBitset(n)
			for i := range n {
				if r.IntN(8) < density {
					b.set(i)
				}
			}
			return b
		}
		wide, narrow := random(at+n*step+1), random(n)
		picked, added, kept, dropped := newBitset(n), slices.Clone(wide), slices.Clone(wide), int64(0)
		for i := range n {
			x := at + i*step
			if wide.has(x) {
				picked.set(i)
			}
			if narrow.has(i) {
				added.set(x)
			} else if kept.has(x) {
				kept.unset(x)
				dropped++
			}
		}
		if got := wide.pick(at, step, n); !slices.Equal(got, picked) {
			t.Fatalf("pick(%d, %d, %d) of %x is %x, want %x", at, step, n, wide, got, picked)
		}
		got := slices.Clone(wide)
		if got.addAt(at, step, n, narrow); !slices.Equal(got, added) {
			t.Fatalf("addAt(%d, %d, %d) of %x to %x is %x, want %x", at, step, n, narrow, wide, got, added)
		}
		got = slices.Clone(wide)
		if d := got.keepAt(at, step, n, narrow); d != dropped || !slices.Equal(got, kept) {
			t.Fatalf("keepAt(%d, %d, %d) of %x in %x is %x with %d dropped, want %x with %d", at, step, n, narrow, wide, got, d, kept, dropped)
		}
	}
}
