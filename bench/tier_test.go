package bench

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// traceOf returns a trace of which all steps are counted.
func traceOf(rows int, used ...[]int32) *tierTrace {
	t := &tierTrace{used: used, counts: make([]int32, rows), rows: int64(rows), steps: len(used)}
	t.findNextUses()
	return t
}

// Four rows take turns, and three fit. The first four uses read nothing.
//
//   - LRU: each row leaves one step before it is used: 4 reads.
//   - One step of lookahead: row 3 replaces row 1, the least recently used one that the next step does not use. Step 6 reads
//     row 1 and replaces row 3, since step 7 uses row 2. Step 8 reads row 3: 2 reads.
//   - The optimum: row 3 replaces row 2, which is used last. Step 7 reads it, in place of row 0 or 1: 1 read.
func TestTierByHand(t *testing.T) {
	trace := traceOf(4, []int32{0}, []int32{1}, []int32{2}, []int32{3}, []int32{0}, []int32{1}, []int32{2}, []int32{3})
	s := trace.countShare(75, 3, []int{1, 0}, 1)
	var reads []int64
	for _, c := range s.counts {
		reads = append(reads, c.reads)
	}
	if want := []int64{4, 4, 2, 1}; !slices.Equal(reads, want) {
		t.Errorf("reads %v of %+v, want %v", reads, s.counts, want)
	}
	// With epochs of 8 steps all rows are dirty, so each row that leaves is spilled.
	if c := trace.countPolicy(3, 1, 8); c.reads != 2 || c.spilled != 3 {
		t.Errorf("%+v", c)
	}
	for _, c := range traceOf(4, []int32{0}, []int32{0, 1, 2}).countShare(50, 2, []int{1}, 1).counts {
		if c.needed != 3 {
			t.Errorf("a step of 3 rows in 2 frames: %+v", c)
		}
	}
}

// Package tier without lookahead reads the rows that LRU reads. With lookahead it does not read fewer than the optimum, which
// is the least that any choice of victims reads.
func TestTierCountsAgainstAllChoices(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		var used [][]int32
		for range 1 + r.IntN(9) {
			var rows []int32
			for row := range int32(6) {
				if r.IntN(3) == 0 {
					rows = append(rows, row)
				}
			}
			used = append(used, rows)
		}
		frames := 1 + r.IntN(6)
		s := traceOf(6, used...).countShare(0, frames, []int{0, 1, 3}, 1)
		last := len(s.counts) - 1
		if s.counts[last].needed > 0 {
			continue
		}
		if a, b := s.counts[0].reads, s.counts[1].reads; a != b {
			t.Fatalf("%d frames, %v: LRU reads %d, the policy without lookahead %d", frames, used, a, b)
		}
		least := leastReads(used, frames, 0, 0)
		for i, c := range s.counts {
			if int(c.reads) < least || i == last && int(c.reads) != least {
				t.Fatalf("%d frames, %v: %+v; the least is %d", frames, used, c, least)
			}
		}
	}
}

// leastReads tries all choices of victims. resident and seen are sets of rows, a bit each.
func leastReads(used [][]int32, frames int, resident, seen uint) int {
	if len(used) == 0 {
		return 0
	}
	need := uint(0)
	for _, row := range used[0] {
		need |= 1 << row
	}
	reads, best := count(need&seen&^resident), 1<<30
	for kept := resident &^ need; ; kept = (kept - 1) & (resident &^ need) { // all sets of rows that stay
		if count(kept|need) <= frames {
			best = min(best, leastReads(used[1:], frames, kept|need, seen|need))
		}
		if kept == 0 {
			return reads + best
		}
	}
}

func count(set uint) (n int) {
	for ; set != 0; set &= set - 1 {
		n++
	}
	return n
}

// A trace numbers the rows that are used, in the order of their slots, and counts lookups and first uses.
func TestTierTrace(t *testing.T) {
	ids := [][]uint32{{7, 3}, {3, 3}, {5, 5}, {5, 0}}
	stream := newCacheStream([]int64{10}, 1, func(step int64, _ int, _ []uint32) ([]uint32, error) { return ids[step], nil })
	trace, err := newTierTrace(stream, 1, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	for step, want := range [][]int32{{1, 3}, {1}, {2}, {0, 2}} {
		if !slices.Equal(trace.used[step], want) {
			t.Errorf("step %d uses %v, want %v", step, trace.used[step], want)
		}
	}
	if trace.lookups != 4 || trace.uses != 2 || trace.firsts != 1 || !slices.Equal(trace.counts, []int32{1, 3, 3, 1}) {
		t.Errorf("%+v", trace)
	}
	if got := trace.topShare(0.2); got != 6.0/8 {
		t.Errorf("the top 2 rows have %v of the lookups", got)
	}
}

func TestShareLawHasItsShares(t *testing.T) {
	const rows = 400_000
	law := newShareLaw(openEmbeddingShares, rows)
	for _, p := range openEmbeddingShares {
		below, above := law.rank(p.lookups-1e-9, rows), law.rank(p.lookups+1e-9, rows)
		if at := p.rows * rows; float64(below) < at-1 || float64(below) > at || float64(above) < at-1 || float64(above) > at {
			t.Errorf("%v of the lookups end at rank %d, and the rest begins at %d; want %v", p.lookups, below, above, at)
		}
	}
	if first, last := law.rank(0, rows), law.rank(1-1.0/(1<<53), rows); first != 0 || last != rows-1 {
		t.Errorf("ranks %d to %d", first, last)
	}
	before := uint32(0)
	for i := range 100_000 {
		rank := law.rank(float64(i)/100_000, rows)
		if rank < before {
			t.Fatalf("rank %d follows %d", rank, before)
		}
		before = rank
	}
}

func TestBadSettingsOfTierAreNamed(t *testing.T) {
	for _, arg := range []string{"share=0", "share=101", "share=1,x", "share=NaN", "skew=flat", "of=steps", "every=0"} {
		_, err := tierBench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: []string{arg}})
		if !errors.Is(err, ErrSetting) || !strings.Contains(err.Error(), arg) {
			t.Errorf("%s: %v", arg, err)
		}
	}
	for _, skew := range tierSkews() {
		if _, err := tierBench.Run(&bytes.Buffer{}, Options{Tiny: true, Args: []string{"skew=" + skew}}); err != nil {
			t.Errorf("%s: %v", skew, err)
		}
	}
}
