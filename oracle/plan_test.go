package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/placement"
)

// A plan equals what maps would say, for random tables, owners and slices.
func TestPlanAgainstMaps(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var p Plan // reused, as in training
	for range 200 {
		tables := make([]int64, 1+r.IntN(5))
		for i := range tables {
			tables[i] = 1 + r.Int64N(1<<r.IntN(20))
		}
		m := placement.New(tables, 1+r.IntN(5))
		ids := make([]uint32, r.IntN(200)*len(tables))
		for l := range ids {
			ids[l] = uint32(r.Int64N(min(tables[l%len(tables)], 1+r.Int64N(1<<10))))
		}
		p.Fill(m, ids)
		check(t, &p, m, ids)
	}
}

func check(t *testing.T, p *Plan, m placement.Map, ids []uint32) {
	t.Helper()
	lookups := map[int64][]int32{}
	for l, id := range ids {
		g := m.Base[l%m.Tables()] + int64(id)
		lookups[g] = append(lookups[g], int32(l))
	}
	if len(p.Slots) != len(lookups) {
		t.Fatalf("%d rows, want %d", len(p.Slots), len(lookups))
	}
	u := 0
	for owner, n := range p.PerOwner {
		if !slices.IsSorted(p.Slots[u : u+n]) {
			t.Fatalf("slots of owner %d are not ascending", owner)
		}
		for range n {
			g := m.Global(owner, int64(p.Slots[u]))
			want := lookups[g]
			if got := p.Pos[p.Start[u]:p.Start[u+1]]; !slices.Equal(got, want) {
				t.Fatalf("row %d: lookups %v, want %v", g, got, want)
			}
			for _, l := range want {
				if p.Index[l] != int32(u) {
					t.Fatalf("lookup %d reads row %d of the plan, want %d", l, p.Index[l], u)
				}
			}
			u++
		}
	}
	if u != len(p.Slots) {
		t.Fatalf("owners have %d rows, want %d", u, len(p.Slots))
	}
}

func TestPlanDoesNotAllocate(t *testing.T) {
	m := placement.New([]int64{1000, 50, 1 << 20}, 3)
	r := rand.New(rand.NewPCG(1, 2))
	ids := make([]uint32, 3*512)
	for l := range ids {
		ids[l] = uint32(r.Int64N(m.TableRows(l % 3)))
	}
	var p Plan
	p.Fill(m, ids)
	if n := testing.AllocsPerRun(10, func() { p.Fill(m, ids) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, samples := range []int{1024, 8192, 16384, 65536} {
		b.Run(fmt.Sprint(samples), func(b *testing.B) {
			m, slices := stream(b, samples, 2, 8)
			var p Plan
			i := 0
			for b.Loop() {
				p.Fill(m, slices[i%len(slices)])
				i++
			}
			b.ReportMetric(float64(b.N)*float64(samples)/b.Elapsed().Seconds(), "samples/s")
		})
	}
}

// stream is synthetic Criteo Kaggle slices, n of so many samples.
func stream(t testing.TB, samples, owners, n int) (placement.Map, [][]uint32) {
	tables, err := data.Tables("criteo-kaggle")
	if err != nil {
		t.Fatal(err)
	}
	src, err := data.Open(data.Options{Format: data.FormatSynthetic, Tables: tables, Seed: 42})
	if err != nil {
		t.Fatal(err)
	}
	order := data.Order{Samples: src.Len(), Batch: samples}
	slices := make([][]uint32, n)
	for i := range slices {
		var b data.Batch
		if err := src.Read(&b, order.Slice(int64(i+1), 0, 1, nil)); err != nil {
			t.Fatal(err)
		}
		slices[i] = b.IDs
	}
	return placement.New(tables, owners), slices
}
