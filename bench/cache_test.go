package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Two trainers, two rows, each used at every step: row 0, of owner 0, by trainer 1
// alone; row 1, of owner 1, by both.
func TestCacheModesByHand(t *testing.T) {
	ids := [][]uint32{{1}, {0, 1}}
	draw := func(_ int64, trainer int, _ []uint32) ([]uint32, error) { return ids[trainer], nil }
	c, err := countCache(newCacheStream([]int64{8}, 2, draw), cacheSettings{trainers: 2, lookahead: 2, steps: 4})
	if err != nil {
		t.Fatal(err)
	}
	for m, want := range [cacheModes]struct{ rows, messages, rank, link float64 }{
		noCache:     {2, 4, 4, 2},
		planned:     {2, 4, 4, 2},
		replicated:  {2, 4, 4, 2},
		partitioned: {1, 2, 2, 1},
		lrppReduced: {1, 2, 2, 1},
		lrppOwners:  {1, 2, 2, 1},
	} {
		x := &c.modes[m]
		now := x.links[critical]
		if x.rows[critical] != want.rows || x.sumOf(now) != want.messages || x.busiestRank(now) != want.rank || x.busiestLink(now) != want.link {
			t.Errorf("%v: %v rows, %v messages, %v of a rank, %v of a link; want %+v", cacheMode(m), x.rows[critical],
				x.sumOf(now), x.busiestRank(now), x.busiestLink(now), want)
		}
		if x.rows[later] != 0 || x.sumOf(x.links[later]) != 0 || x.stateful != [paths]float64{} {
			t.Errorf("%v: %v off the critical path", cacheMode(m), x)
		}
	}
	if c.distinct != 2 || c.optimum != 2 || c.peakAll != 2 || c.peakTrainer != 2 {
		t.Errorf("%v distinct rows, optimum %v, %v and %v cached", c.distinct, c.optimum, c.peakAll, c.peakTrainer)
	}
}

// Rows that are used once: the traffic of fetches and write-backs.
func TestCacheModesOfRowsUsedOnce(t *testing.T) {
	draw := func(step int64, trainer int, ids []uint32) ([]uint32, error) {
		row := uint32(2 * step) // of owner 0
		return append(ids[:0], row+uint32(1-trainer)), nil
	}
	c, err := countCache(newCacheStream([]int64{100}, 2, draw), cacheSettings{trainers: 2, lookahead: 3, steps: 5})
	if err != nil {
		t.Fatal(err)
	}
	// Trainer 0 uses a row of owner 1 and trainer 1 one of owner 0.
	for m, want := range [cacheModes]struct {
		now, later, state float64
	}{noCache: {4, 0, 0}, replicated: {4, 2, 2}, partitioned: {0, 4, 4}, lrppReduced: {0, 4, 4}, lrppOwners: {0, 4, 4}, planned: {0, 4, 0}} {
		x := &c.modes[m]
		if x.sumOf(x.links[critical]) != want.now || x.sumOf(x.links[later]) != want.later || x.stateful != [paths]float64{later: want.state} {
			t.Errorf("%v: %v critical, %v later, state with %v; want %+v", cacheMode(m), x.sumOf(x.links[critical]),
				x.sumOf(x.links[later]), x.stateful, want)
		}
	}
	if c.optimum != 2 { // the values come, and stay
		t.Errorf("optimum %v", c.optimum)
	}
}

// The optimum equals the result of trying all places.
func TestOptimumAgainstAllPlaces(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		ranks := 1 + r.IntN(4)
		b := newOptimum(r.IntN(ranks), ranks)
		var uses [][]uint16
		for range 1 + r.IntN(5) {
			var readers []uint16
			for q := range uint16(ranks) {
				if r.IntN(2) == 0 {
					readers = append(readers, q)
				}
			}
			if len(readers) == 0 {
				readers = []uint16{uint16(r.IntN(ranks))}
			}
			uses = append(uses, readers)
			b.addUse(7, readers)
		}
		if want := leastMessages(b.self, ranks, uses); b.messages() != float64(want) {
			t.Fatalf("%d ranks, row of %d, readers %v: %v messages, want %d", ranks, b.self, uses, b.messages(), want)
		}
	}
}

func leastMessages(at, ranks int, uses [][]uint16) int {
	if len(uses) == 0 {
		return 0
	}
	best := 1 << 30
	for next := range ranks {
		n := 0
		for _, q := range uses[0] {
			if int(q) != at {
				n++ // its value
			}
			if int(q) != next {
				n++ // its gradient
			}
		}
		if next != at && !slices.Contains(uses[0], uint16(next)) {
			n++
		}
		best = min(best, n+leastMessages(next, ranks, uses[1:]))
	}
	return best
}

func TestPowerLawsStayInTheirTables(t *testing.T) {
	for _, law := range skews {
		for _, rows := range []float64{1, 3, 1e7} {
			least, most := law.rank(0, rows), law.rank(1-1.0/(1<<53), rows)
			if least != 0 || float64(most) >= rows || float64(most) < rows-2 {
				t.Errorf("a = %v, %v rows: ranks %d to %d", law.exponent(), rows, least, most)
			}
		}
	}
	// Half of u is the median: of 1/(r+1)^2, the first row.
	if got := (powerLaw{k: 1, above: true}).rank(0.5, 1e6); got != 0 {
		t.Errorf("median rank %d", got)
	}
	if got := (powerLaw{k: 2}).rank(0.5, 1000); got != 250 {
		t.Errorf("median rank %d", got)
	}
}
