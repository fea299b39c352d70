package baseline

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The placement of samples costs as little as the best of all placements.
func TestPlacementAgainstAllPlacements(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		n := 1 + r.IntN(4)
		room := make([]int, n)
		samples := r.IntN(8)
		for range samples {
			room[r.IntN(n)]++
		}
		cost := make([]int32, samples*n)
		for i := range cost {
			cost[i] = int32(r.IntN(6))
		}
		at := PlaceSamples(cost, room)
		sum, load := int32(0), make([]int, n)
		for i, to := range at {
			sum += cost[i*n+int(to)]
			load[to]++
		}
		if !slices.Equal(load, room) {
			t.Fatalf("loads %v, want %v", load, room)
		}
		if want := leastCost(cost, slices.Clone(room), 0); sum != want {
			t.Fatalf("costs %v, room %v: placed for %d, the least is %d", cost, room, sum, want)
		}
	}
}

func leastCost(cost []int32, room []int, i int) int32 {
	n := len(room)
	if i*n == len(cost) {
		return 0
	}
	best := int32(1 << 30)
	for r := range n {
		if room[r] > 0 {
			room[r]--
			best = min(best, cost[i*n+r]+leastCost(cost, room, i+1))
			room[r]++
		}
	}
	return best
}

// A batch of BagPipe's size is placed within seconds: its solver took 2.36 s on 16 cores.
func TestPlacementOfALargeBatch(t *testing.T) {
	const samples, n = 16384, 8
	r := rand.New(rand.NewPCG(1, 2))
	cost := make([]int32, samples*n)
	for i := range cost {
		cost[i] = int32(r.IntN(20 * costScale))
		if i%n == 0 {
			cost[i] /= 4 // most samples want to be at rank 0
		}
	}
	began := time.Now()
	PlaceSamples(cost, slicesOf(samples, n))
	took := time.Since(began)
	t.Logf("placed in %v", took)
	if took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestResortKeepsAllSamples(t *testing.T) {
	hot := make([]bool, 103)
	for i := range hot {
		hot[i] = i%3 == 0
	}
	order, n := Resort(hot, 10)
	if n != 3 || len(order) != len(hot) {
		t.Fatalf("%d hot batches, %d samples", n, len(order))
	}
	pure := 0
	for b := range 10 {
		all := true
		for _, i := range order[10*b : 10*b+10] {
			all = all && hot[i]
		}
		if all {
			pure++
		}
	}
	slices.Sort(order)
	for i, x := range order {
		if int(x) != i {
			t.Fatalf("sample %d is missing", i)
		}
	}
	if pure != n {
		t.Errorf("%d batches of hot samples alone, want %d", pure, n)
	}
}
