package oracle

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/ecrec/ecrec/internal/placement"
)

// someThreads are threads that take the parts in any order.
type someThreads int

func (n someThreads) Count() int { return int(n) }

func (n someThreads) Run(parts int, part func(worker, i int)) {
	order := make(chan int, parts)
	for _, i := range rand.Perm(parts) {
		order <- i
	}
	close(order)
	var all sync.WaitGroup
	for w := range int(n) {
		all.Go(func() {
			for i := range order {
				part(w, i)
			}
		})
	}
	all.Wait()
}

// checkFiller fills a plan with x and compares it with want.
func checkFiller(t *testing.T, x *Filler, m placement.Map, l Lookups, want *Plan) {
	t.Helper()
	var got Plan
	x.Fill(&got, m, l)
	if !slices.Equal(got.Slots, want.Slots) || !slices.Equal(got.PerOwner, want.PerOwner) || !slices.Equal(got.Index, want.Index) ||
		!slices.Equal(got.Start, want.Start) || !slices.Equal(got.Pos, want.Pos) || !slices.Equal(got.Factors, want.Factors) {
		t.Fatalf("the plan of %d lookups differs with %d threads", len(l.IDs), x.threads.Count())
	}
}

// Plans do not depend on the threads. The slices have several chunks, large buckets, and sparse ones.
func TestPlanOnThreads(t *testing.T) {
	r := random(t)
	x, one := NewFiller(FillerOptions{Threads: someThreads(3)}), NewFiller(FillerOptions{})
	for _, c := range []struct {
		tables  []int64
		owners  int
		samples int
		most    int // ids of a bag
		tableOf []int
		weights bool
	}{
		{[]int64{1 << 20, 7, 1 << 17}, 1, 30_000, 1, nil, false},
		{[]int64{1 << 20, 7, 1 << 17}, 3, 30_000, 1, nil, false},
		{[]int64{1 << 20, 7, 1 << 17, 1 << 30}, 1, 20_000, 12, nil, false},
		{[]int64{1 << 20, 7, 1 << 17}, 2, 20_000, 12, nil, false},
		{[]int64{1 << 20, 7, 1 << 17}, 2, 20_000, 12, []int{0, 1, 2, 0}, true},
		{[]int64{1 << 20, 7}, 1, 20_000, 1, []int{0, 1, 0}, false},
		{[]int64{1 << 16}, 1, 9_000, 40, nil, true},
		{[]int64{5}, 4, 0, 3, nil, false},
	} {
		m := placement.New(c.tables, c.owners)
		tableOf := c.tableOf
		if tableOf == nil {
			for i := range c.tables {
				tableOf = append(tableOf, i)
			}
		}
		l := Lookups{TableOf: c.tableOf}
		if c.most > 1 {
			l.Offsets = []int32{0}
		}
		for range c.samples {
			for _, table := range tableOf {
				n := 1
				if c.most > 1 {
					n = r.IntN(c.most + 1)
				}
				for range n {
					most := c.tables[table]
					if r.IntN(2) == 0 {
						most = min(most, 3) // popular rows
					}
					l.IDs = append(l.IDs, uint32(r.Int64N(most)))
				}
				if c.most > 1 {
					l.Offsets = append(l.Offsets, int32(len(l.IDs)))
				}
			}
		}
		if c.weights {
			l.Weights = make([]float32, len(l.IDs))
			for i := range l.Weights {
				l.Weights[i] = r.Float32()
			}
		}
		var want Plan
		one.Fill(&want, m, l)
		checkBags(t, &want, m, l)
		checkFiller(t, x, m, l, &want)
	}
}
