package oracle

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ecrec/ecrec/internal/placement"
)

// drawBags draws the lookups of some samples: bags of 0 to 5 ids with weights, and shared tables.
func drawBags(r *rand.Rand, m placement.Map, tableOf []int, samples int) Lookups {
	l := Lookups{Offsets: []int32{0}, TableOf: tableOf}
	for range samples {
		for _, t := range tableOf {
			for range r.IntN(6) {
				l.IDs = append(l.IDs, uint32(r.Int64N(min(m.TableRows(t), 1+r.Int64N(1<<10)))))
				l.Weights = append(l.Weights, r.Float32())
			}
			l.Offsets = append(l.Offsets, int32(len(l.IDs)))
		}
	}
	return l
}

// A plan of bags equals one made with maps, with and without offsets, weights and shared tables.
func TestBagsAgainstMaps(t *testing.T) {
	r := random(t)
	var p Plan // reused, as in training
	threaded := NewFiller(FillerOptions{Threads: someThreads(2)})
	for range 200 {
		tables := make([]int64, 1+r.IntN(5))
		for i := range tables {
			tables[i] = 1 + r.Int64N(1<<r.IntN(20))
		}
		tableOf := make([]int, len(tables)+r.IntN(4))
		for f := range tableOf {
			tableOf[f] = f % len(tables)
			if r.IntN(4) == 0 {
				tableOf[f] = r.IntN(len(tables)) // a table may have no feature
			}
		}
		m := placement.New(tables, 1+r.IntN(9))
		l := drawBags(r, m, tableOf, r.IntN(200))
		switch r.IntN(4) {
		case 0:
			l.Weights = nil
		case 1: // one id each, of shared tables
			l.Offsets, l.Weights, l.IDs = nil, nil, l.IDs[:0]
			for range r.IntN(200) {
				for _, t := range tableOf {
					l.IDs = append(l.IDs, uint32(r.Int64N(tables[t])))
				}
			}
		case 2:
			tables = slices.Repeat([]int64{1 + r.Int64N(1<<20)}, 3)
			m = placement.New(tables, 2)
			l = drawBags(r, m, []int{0, 1, 2}, 60)
			l.TableOf = nil
		}
		p.Fill(m, l)
		checkBags(t, &p, m, l)
		checkFiller(t, threaded, m, l, &p)
	}
}

func checkBags(t *testing.T, p *Plan, m placement.Map, l Lookups) {
	t.Helper()
	features := m.Tables()
	if l.TableOf != nil {
		features = len(l.TableOf)
	}
	type list struct {
		cells   []int32
		factors []float32
	}
	want := map[int64]*list{}
	rowOf := make([]int64, len(l.IDs))
	for c, n := 0, 0; n < len(l.IDs); c++ {
		end := n + 1
		if l.Offsets != nil {
			end = int(l.Offsets[c+1])
		}
		for ; n < end; n++ {
			g := m.Base[l.tableOf(c%features)] + int64(l.IDs[n])
			if want[g] == nil {
				want[g] = new(list)
			}
			rowOf[n] = g
			want[g].cells = append(want[g].cells, int32(c))
			if l.Weights != nil {
				want[g].factors = append(want[g].factors, l.Weights[n])
			}
		}
	}
	if len(p.Slots) != len(want) || len(p.Index) != len(l.IDs) || len(p.Pos) != len(l.IDs) || len(p.Factors) != len(l.Weights) {
		t.Fatalf("%d rows, want %d; %d, %d and %d entries for %d lookups", len(p.Slots), len(want), len(p.Index), len(p.Pos),
			len(p.Factors), len(l.IDs))
	}
	globals, u := make([]int64, len(p.Slots)), 0
	for owner, n := range p.PerOwner {
		if !slices.IsSorted(p.Slots[u : u+n]) {
			t.Fatalf("slots of owner %d are not ascending", owner)
		}
		for range n {
			g := m.Global(owner, int64(p.Slots[u]))
			w := want[g]
			if w == nil || !slices.Equal(p.Pos[p.Start[u]:p.Start[u+1]], w.cells) {
				t.Fatalf("row %d: cells %v, want %+v", g, p.Pos[p.Start[u]:p.Start[u+1]], w)
			}
			if l.Weights != nil && !slices.Equal(p.Factors[p.Start[u]:p.Start[u+1]], w.factors) {
				t.Fatalf("row %d: factors %v, want %v", g, p.Factors[p.Start[u]:p.Start[u+1]], w.factors)
			}
			globals[u] = g
			u++
		}
	}
	for n, u := range p.Index {
		if globals[u] != rowOf[n] {
			t.Fatalf("lookup %d reads row %d, want %d", n, globals[u], rowOf[n])
		}
	}
}

func TestBagsDoNotAllocate(t *testing.T) {
	m := placement.New([]int64{1000, 50, 1 << 20}, 3)
	l := drawBags(rand.New(rand.NewPCG(1, 2)), m, []int{0, 1, 2, 1}, 300)
	var p Plan
	p.Fill(m, l)
	if n := testing.AllocsPerRun(10, func() { p.Fill(m, l) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
