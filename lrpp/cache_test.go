package lrpp

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/kernels"
)

// randomCache returns options of mode Cached.
func randomCache(r *rand.Rand) PlanOptions {
	o := PlanOptions{Mode: Cached, Check: true, DelayedSync: r.IntN(3) > 0, Lookahead: []int{1, 2, 7, 50}[r.IntN(4)]}
	if r.IntN(5) == 0 {
		o.Lookahead, o.Auto = 12, true
	}
	return o
}

// fitted gives a cache the least capacity that its task needs, or somewhat more.
func (j task) fitted(t *testing.T, r *rand.Rand, o PlanOptions) PlanOptions {
	t.Helper()
	o.CapacityRows = 1
	for {
		full := j.train(t, 0, "", o).full
		if full == nil {
			more := o
			more.CapacityRows += r.IntN(3) * r.IntN(10)
			// With lookahead "auto", more capacity allows a longer lookahead. The oracle
			// then sees more readers and shares more rows, which may exceed the capacity.
			if o.Auto && j.train(t, 0, "", more).full != nil {
				return o
			}
			return more
		}
		if full.NeededRows <= o.CapacityRows {
			t.Fatalf("with a capacity of %d rows of each owner: %v", o.CapacityRows, full)
		}
		o.CapacityRows = full.NeededRows
	}
}

// The rows that trainers read from their caches equal serial training bit for bit, with any
// lookahead and any roles, and with caches of the least capacity. No copy is stale, and
// no gradient is lost or counted twice, including gradients of rows used once.
func TestCachedRowsEqualSerialTraining(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rounds := uint64(100)
	if testing.Short() {
		rounds = 30
	}
	for round := range rounds {
		r := rand.New(rand.NewPCG(seed, round))
		j, o := randomTask(r), randomCache(r)
		if round%2 == 0 {
			o = j.fitted(t, r, o)
		}
		delays := ""
		if round%3 == 0 {
			delays = "delay(200us, p=0.2)"
		}
		j.check(t, fmt.Sprintf("seed %d round %d, %d ranks, %d train, %+v", seed, round, j.ranks, j.trainers, o), seed+round, delays, o)
	}
}

// After Settle owners hold the same rows as in mode Direct, for every optimizer. State is
// sent with rows and survives eviction and fetch. At the end of the data no row is left
// in a cache.
func TestSettledOwnersEqualDirect(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, round))
		j, o := randomTask(r), randomCache(r)
		j.opt = kernels.Optimizer{Kind: kernels.OptimizerKind(round % 5), LR: 0.25, Momentum: 0.9, Eps: 1e-8,
			Beta1: 0.9, Beta2: 0.99, C1: 0.1, C2: 0.01, StepSize: 0.3, BiasSqrt: 0.2}
		if round%2 == 0 {
			o = j.fitted(t, r, o)
		}
		total := func(settled [][]digest.Sum) (sums []digest.Sum) {
			for _, rank := range settled {
				sums = append(sums, make([]digest.Sum, len(rank)-len(sums))...)
				for i, d := range rank {
					sums[i].Add(d)
				}
			}
			return sums
		}
		want := total(j.train(t, seed, "", PlanOptions{Mode: Direct, Check: true}).settled)
		got := total(j.train(t, seed, "", o).settled)
		if !reflect.DeepEqual(got, want) || len(want) == 0 {
			t.Fatalf("seed %d round %d, %+v: digests %v, want %v", seed, round, o, got, want)
		}
	}
}
