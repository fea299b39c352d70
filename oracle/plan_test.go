package oracle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/placement"
)

// random returns a source of randomness whose seed is in the log.
func random(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// A plan equals one made with maps, for random tables, owners and slices.
func TestPlanAgainstMaps(t *testing.T) {
	r := random(t)
	var p Plan // reused, as in training
	threaded := NewFiller(FillerOptions{Threads: someThreads(2)})
	for range 200 {
		tables := make([]int64, 1+r.IntN(5))
		for i := range tables {
			tables[i] = 1 + r.Int64N(1<<r.IntN(20))
		}
		m := placement.New(tables, 1+r.IntN(9))
		ids := make([]uint32, r.IntN(200)*len(tables))
		for l := range ids {
			ids[l] = uint32(r.Int64N(min(tables[l%len(tables)], 1+r.Int64N(1<<10))))
		}
		p.Fill(m, Lookups{IDs: ids})
		check(t, &p, m, ids)
		checkFiller(t, threaded, m, Lookups{IDs: ids}, &p)
	}
}

// The same at the limits of tables, of blocks and of allocated memory.
func TestPlanAtLimits(t *testing.T) {
	r := random(t)
	uniform := func(rows int64, l int) uint32 { return uint32(r.Int64N(rows)) }
	zero := func(int64, int) uint32 { return 0 }
	last := func(rows int64, l int) uint32 { return uint32(rows - 1) }
	inOrder := func(rows int64, l int) uint32 { return uint32(int64(l) % rows) }
	sparse := func(rows int64, l int) uint32 { return uint32(int64(l) << 12 % rows) }
	many := make([]int64, 100) // more tables than lookups in a block
	for t := range many {
		many[t] = 1 + r.Int64N(40)
	}
	huge := []int64{math.MaxUint32, 3, math.MaxUint32, math.MaxUint32}
	var p Plan
	threaded := NewFiller(FillerOptions{Threads: someThreads(2)})
	for _, c := range []struct {
		name    string
		tables  []int64
		samples int
		id      func(rows int64, lookup int) uint32
	}{
		{"no samples yet", []int64{10, 10}, 0, zero},
		{"one row", []int64{1}, 5000, zero},
		{"equal ids", []int64{1 << 20, 7}, 3000, last},
		{"all rows", []int64{1 << 16}, 1 << 16, inOrder},
		{"a block", []int64{1000}, blockLookups, uniform},
		{"a block and one", []int64{1000}, blockLookups + 1, uniform},
		{"blocks of samples", []int64{9, 1 << 30, 70_000}, 2*blockLookups + 1, uniform},
		{"few rows and many", []int64{999, 2000, 2001, 1 << 20}, 1000, uniform},
		{"multiples", []int64{1 << 30}, 1 << 16, sparse},
		{"many tables", many, 5, uniform},
		{"huge tables", huge, 700, uniform},
		{"millions of lookups", []int64{1 << 30, 1 << 10, 3}, 1 << 19, uniform},
		{"small after large", []int64{1 << 30, 5}, 9, uniform},
		{"no samples", []int64{10, 10}, 0, zero},
	} {
		ids := make([]uint32, c.samples*len(c.tables))
		for l := range ids {
			ids[l] = c.id(c.tables[l%len(c.tables)], l)
		}
		for _, owners := range []int{1, 2, 3, 8, 13, 64} {
			if rows := placement.New(c.tables, owners); rows.Slots(0) > math.MaxInt32 || len(ids) > 1<<20 && owners > 2 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", c.name, owners), func(t *testing.T) {
				m := placement.New(c.tables, owners)
				p.Fill(m, Lookups{IDs: ids})
				check(t, &p, m, ids)
				checkFiller(t, threaded, m, Lookups{IDs: ids}, &p)
			})
		}
	}
}

// A slice that is too large is refused, not planned wrongly.
func TestPlanRefusesTooManyRows(t *testing.T) {
	m := placement.New(slices.Repeat([]int64{1 << 31}, 1<<7), 1<<6)
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "274877906944 rows") {
			t.Fatalf("%v", r)
		}
	}()
	new(Plan).Fill(m, Lookups{IDs: make([]uint32, m.Tables())})
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
	if len(p.PerOwner) != m.Owners || len(p.Index) != len(ids) || len(p.Pos) != len(ids) || len(p.Start) != len(p.Slots)+1 {
		t.Fatalf("%d owners, %d positions in Index, %d in Pos, %d in Start for %d lookups, %d rows",
			len(p.PerOwner), len(p.Index), len(p.Pos), len(p.Start), len(ids), len(p.Slots))
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
	p.Fill(m, Lookups{IDs: ids})
	if n := testing.AllocsPerRun(10, func() { p.Fill(m, Lookups{IDs: ids}) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, samples := range []int{1024, 8192, 16384, 65536} {
		b.Run(fmt.Sprint(samples), func(b *testing.B) {
			m, slices := criteo(b, samples, 2, 8)
			var p Plan
			i := 0
			for b.Loop() {
				p.Fill(m, Lookups{IDs: slices[i%len(slices)]})
				i++
			}
			b.ReportMetric(float64(b.N)*float64(samples)/b.Elapsed().Seconds(), "samples/s")
		})
	}
}

// criteo returns n slices of synthetic Criteo Kaggle data, with the given number of
// samples.
func criteo(t testing.TB, samples, owners, n int) (placement.Map, [][]uint32) {
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
