package baseline_test

import (
	"testing"

	"github.com/ecrec/ecrec/bench/baseline"
	"github.com/ecrec/ecrec/lrpp"
)

// All exact systems give the rows that the modes of package lrpp give, bit for bit, and move the rows that their programs count.
func TestRowsAreThoseOfOurModes(t *testing.T) {
	const steps, batch, ranks = 12, 48, 3
	s := drawSamples(7, []int64{5, 40, 300, 1000}, batch, ranks, steps+6)
	want, direct := s.train(t, steps, "none", nil)
	for _, mode := range []string{"planned", "lrpp"} {
		if got, _ := s.train(t, steps, mode, nil); got != want {
			t.Fatalf("mode %s: %v, mode none: %v", mode, got, want)
		}
	}
	st := s.stream()
	lookups := make([]int32, st.Place.Rows())
	for i, id := range s.ids {
		lookups[st.Place.Base[i%len(s.tables)]+int64(id)]++
	}
	for name, p := range map[string]*baseline.Program{
		"none":          baseline.None(st, steps),
		"pooled":        baseline.Pooled(st, steps),
		"fb-dlrm":       baseline.FBDLRM(st, steps),
		"replicated":    baseline.Replicated(st, steps, 3),
		"replicated, 1": baseline.Replicated(st, steps, 1),
		"partitioned":   baseline.Partitioned(st, steps, 3),
		"partitioned 1": baseline.Partitioned(st, steps, 1),
		"static-hot":    baseline.StaticHot(st, steps, baseline.Hottest(lookups, 30)),
	} {
		got, moved := s.train(t, steps, "none", opener(p, len(s.tables)))
		if got != want {
			t.Errorf("%s: rows %v, want %v", name, got, want)
		}
		var counted lrpp.Moved
		for step := range steps {
			for rank := range ranks {
				counted.Add(p.Moved(step, rank, dim))
			}
		}
		if moved != counted || counted.Critical.Rows == 0 {
			t.Errorf("%s: moved %+v, counted %+v", name, moved, counted)
		}
		if name == "none" && moved != direct {
			t.Errorf("mode none moves %+v, the program %+v", direct, moved)
		}
	}
}

// Systems that change the order of samples give the rows of our modes in that order.
func TestRowsOfOtherOrders(t *testing.T) {
	const steps, batch, ranks, lookahead = 8, 45, 3, 3
	s := drawSamples(11, []int64{5, 40, 300}, batch, ranks, steps+lookahead)
	st := s.stream()
	lookups := make([]int32, st.Place.Rows())
	for i, id := range s.ids {
		lookups[st.Place.Base[i%len(s.tables)]+int64(id)]++
	}
	hot := baseline.Hottest(lookups, 60)
	isHot := map[int32]bool{}
	for _, g := range hot {
		isHot[g] = true
	}
	kinds := make([]bool, len(s.ids)/len(s.tables))
	for i := range kinds {
		kinds[i] = true
		for f := range s.tables {
			kinds[i] = kinds[i] && isHot[int32(st.Place.Base[f]+int64(s.ids[i*len(s.tables)+f]))]
		}
	}
	resorted, placed := *s, *s
	var hotBatches int
	resorted.order, hotBatches = baseline.Resort(kinds, batch)
	placed.order = baseline.Place(st, batch, steps+lookahead, lookahead)
	if hotBatches == 0 {
		t.Fatal("no batch is hot")
	}
	fae := baseline.StaticHot(resorted.stream(), steps, hot)
	cold := 0
	for _, step := range fae.Steps {
		n := 0
		for _, r := range step {
			n += len(r.Part.Items)
		}
		if n > 0 {
			cold++
		}
	}
	if cold == steps {
		t.Error("no batch of FAE is without cold rows")
	}
	inPlace := baseline.Partitioned(placed.stream(), steps, lookahead)
	for name, c := range map[string]struct {
		s *samples
		p *baseline.Program
	}{"fae": {&resorted, fae}, "partitioned-placed": {&placed, inPlace}} {
		want, _ := c.s.train(t, steps, "planned", nil)
		if got, _ := c.s.train(t, steps, "none", opener(c.p, len(s.tables))); got != want {
			t.Errorf("%s: rows %v, want %v", name, got, want)
		}
	}
	before := baseline.Partitioned(st, steps, lookahead).Total(1, steps-1, dim).Critical.Rows
	if after := inPlace.Total(1, steps-1, dim).Critical.Rows; after >= before {
		t.Errorf("%d critical rows with samples placed, %d without", after, before)
	}
}

// The bytes of Pooled are those of BagPipe's formula: 2 x batch x tables x dim x 4 x (n-1)/n, where the owners of lookups are even.
func TestBytesOfPooled(t *testing.T) {
	const batch, ranks, tables, width = 4096, 8, 26, 48
	rows := make([]int64, tables)
	for i := range rows {
		rows[i] = 100_003
	}
	s := drawSamples(3, rows, batch, ranks, 1)
	got := baseline.Pooled(s.stream(), 1).Total(0, 0, width)
	want := 2.0 * batch * tables * width * 4 * (ranks - 1) / ranks
	if r := float64(got.Critical.Bytes) / want; r < 0.995 || r > 1.005 || got.Delayed.Bytes != 0 {
		t.Errorf("%d bytes, want %.0f", got.Critical.Bytes, want)
	}
	if atBagPipe := want * 16384 / batch; int(atBagPipe/1e6+0.5) != 143 {
		t.Errorf("%.1f MB at BagPipe's setting, want 143", atBagPipe/1e6)
	}
	// All rows of a batch on all ranks: 2 (n-1)/n of the distinct rows for each rank.
	st := s.stream()
	st.Steps = 1
	p := baseline.Replicated(st, 1, 1)
	distinct := len(p.Steps[0][0].Summed)
	if got, want := p.Total(0, 0, width).Critical.Bytes, int64(2*(ranks-1)*distinct*4*width); got != want {
		t.Errorf("replicated: %d bytes, want %d", got, want)
	}
}
