package main

import (
	"math/rand/v2"
	"testing"
	"time"
)

// drawing returns a source of random cases, and logs its seed.
func drawing(t *testing.T) *rand.Rand {
	t.Helper()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (-seed shows it again)", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// few returns all cases in a soak, else some of them.
func few[T any](r *rand.Rand, all []T, n int) (some []T) {
	if *soak {
		return all
	}
	for _, i := range r.Perm(len(all))[:n] {
		some = append(some, all[i])
	}
	return some
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }
