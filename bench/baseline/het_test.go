package baseline_test

import (
	"testing"

	"github.com/ecrec/ecrec/bench/baseline"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/train"
)

func noPast() [][]int32 { return nil }

// Two ranks that use one row each step: each fetches it once, and again after more updates than the bound.
func TestHETByHand(t *testing.T) {
	const steps, bound = 9, 2
	s := &baseline.Stream{Place: placement.New([]int64{4}, 2), Features: 1, Steps: steps, IDs: func(int,
		int) []uint32 {
		return []uint32{1}
	}} // owner 1
	p := baseline.HET(s, steps, bound, noPast)
	var fetched, pushed []int
	for _, step := range p.Steps {
		fetched = append(fetched, step[1].Fetch.To[0])
		pushed = append(pushed, step[0].Push.From[1])
	}
	// The rank has 3 updates that it has not pushed after steps 0 to 2, and so on.
	for t0, want := range []int{1, 0, 0, 1, 0, 0, 1, 0, 0} {
		first := 0
		if t0 > 0 {
			first = want
		}
		if fetched[t0] != want || pushed[t0] != first {
			t.Fatalf("fetched %v, pushed %v", fetched, pushed)
		}
	}
	if p.Steps[0][0].SentClocks[1] != 0 || p.Steps[1][0].SentClocks[1] != 1 {
		t.Errorf("clocks of the first steps: %v, %v", p.Steps[0][0].SentClocks, p.Steps[1][0].SentClocks)
	}
	if n := p.Moved(3, 0, 48).Critical; n.Rows != 1 || n.Bytes != 4*48 {
		t.Errorf("rank 0 receives %+v", n)
	}
	if n := p.Moved(3, 1, 48).Critical; n.Rows != 1 || n.Bytes != 4*48+8 {
		t.Errorf("rank 1 receives %+v", n)
	}
	// With a past, the row is cached before the first step.
	used := 0
	p = baseline.HET(s, 2, bound, func() [][]int32 {
		if used++; used > 1 {
			return nil
		}
		return [][]int32{{1}, {1}}
	})
	if p.Preload[1].To[0] != 1 || p.Steps[0][1].Fetch.To[0] != 0 {
		t.Errorf("preloaded %v, fetched %v", p.Preload[1], p.Steps[0][1].Fetch)
	}
}

// HET gives the same rows in each run, but not those of our modes.
func TestHETRuns(t *testing.T) {
	const steps, batch, ranks = 10, 48, 3
	s := drawSamples(7, []int64{5, 40, 300}, batch, ranks, steps)
	exact, _ := s.train(t, steps, "none", nil)
	p := baseline.HET(s.stream(), steps, 2, noPast)
	open := func(r *train.Trial) (exchange, error) {
		return baseline.NewHET(optionsOf(r, nil, len(s.tables)), p)
	}
	first, moved := s.train(t, steps, "none", open)
	again, _ := s.train(t, steps, "none", open)
	if first != again || first == exact {
		t.Errorf("rows %v, again %v; exact %v", first, again, exact)
	}
	var want int64
	for step := range steps {
		for rank := range ranks {
			want += p.Moved(step, rank, dim).Critical.Bytes
		}
	}
	if moved.Critical.Bytes != want {
		t.Errorf("%d bytes moved, %d counted", moved.Critical.Bytes, want)
	}
	// Without staleness every row that was used before is pushed and fetched again.
	eager := baseline.HET(s.stream(), steps, 0, noPast).Steps[steps-1][0]
	lazy := p.Steps[steps-1][0]
	if len(eager.PushSlots) <= len(lazy.PushSlots) {
		t.Errorf("%d rows pushed with bound 0, %d with bound 2", len(eager.PushSlots), len(lazy.PushSlots))
	}
}

// One rank that pushes each gradient before it uses the row again gives the rows of our modes: no gradient is lost, and none counts twice.
func TestHETOfOneRankIsExact(t *testing.T) {
	const steps, batch = 10, 48
	s := drawSamples(7, []int64{5, 40, 300}, batch, 1, steps)
	want, _ := s.train(t, steps, "none", nil)
	p := baseline.HET(s.stream(), steps, 0, noPast)
	if got, _ := s.train(t, steps, "none", func(r *train.Trial) (exchange, error) {
		return baseline.NewHET(optionsOf(r, nil, len(s.tables)), p)
	}); got != want {
		t.Errorf("rows %v, want %v", got, want)
	}
}

// With caches that were filled before, the first step may push: gradients of zeros.
func TestHETPushesInItsFirstStep(t *testing.T) {
	const steps, batch, ranks, bound = 4, 48, 3, 2
	s := drawSamples(7, []int64{5, 40, 300}, batch, ranks, steps)
	left, st := bound+1, s.stream()
	p := baseline.HET(st, steps, bound, func() (uses [][]int32) {
		if left--; left < 0 {
			return nil
		}
		for rank := range ranks {
			var rows []int32
			used := map[int32]bool{}
			for l, id := range st.IDs(0, rank) {
				if g := int32(st.Place.Base[l%st.Features] + int64(id)); !used[g] {
					used[g], rows = true, append(rows, g)
				}
			}
			uses = append(uses, rows)
		}
		return uses
	})
	if len(p.Steps[0][0].PushSlots) == 0 {
		t.Fatal("the first step pushes nothing")
	}
	s.train(t, steps, "none", func(r *train.Trial) (exchange, error) {
		return baseline.NewHET(optionsOf(r, nil, len(s.tables)), p)
	})
}
