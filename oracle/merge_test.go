package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Merged lists equal a merge with maps.
func TestMergeAgainstMaps(t *testing.T) {
	r := random(t)
	var merged Merged
	for range 500 {
		slots := 1 + r.IntN(1<<r.IntN(16))
		counts := make([]int, r.IntN(20))
		var lists []int32
		where := map[int32][]int32{}
		for rank := range counts {
			list := map[int32]bool{}
			for range r.IntN(1 + r.IntN(300)) {
				list[int32(r.IntN(slots))] = true
			}
			counts[rank] = len(list)
			for _, slot := range slices.Sorted(maps.Keys(list)) {
				where[slot] = append(where[slot], int32(len(lists)))
				lists = append(lists, slot)
			}
		}
		merged.Merge(lists, counts)
		want := slices.Sorted(maps.Keys(where))
		if !slices.Equal(merged.Slots, want) {
			t.Fatalf("merged slots %v, want %v", merged.Slots, want)
		}
		if len(merged.Start) != len(want)+1 {
			t.Fatalf("%d starts for %d slots", len(merged.Start), len(want))
		}
		for u, slot := range want {
			if got := merged.Pos[merged.Start[u]:merged.Start[u+1]]; !slices.Equal(got, where[slot]) {
				t.Fatalf("slot %d is merged from %v, want %v", slot, got, where[slot])
			}
		}
	}
}

// A list that does not ascend cannot be merged and is refused.
func TestMergeRefuses(t *testing.T) {
	for _, c := range []struct {
		lists  []int32
		counts []int
		says   string
	}{
		{[]int32{1, 2, 2}, []int{1, 2}, "slot 2 follows slot 2 in the list of rank 1"},
		{[]int32{5, 4}, []int{2}, "slot 4 follows slot 5 in the list of rank 0"},
		{[]int32{-1}, []int{1}, "slot -1"},
		{[]int32{1, 2, 3}, []int{1, 1}, "3 slots in all, but the counts add up to 2"},
	} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), c.says) {
					t.Errorf("%v %v: %v, want %q", c.lists, c.counts, r, c.says)
				}
			}()
			new(Merged).Merge(c.lists, c.counts)
		}()
	}
}

// wanted returns the rows of owner 0 that each rank uses in one batch, list after list.
func wanted(t testing.TB, batch, ranks int) (lists []int32, counts []int) {
	m, slices := criteo(t, batch/ranks, ranks, ranks)
	var p Plan
	for _, ids := range slices {
		p.Fill(m, Lookups{IDs: ids})
		lists = append(lists, p.Slots[:p.PerOwner[0]]...)
		counts = append(counts, p.PerOwner[0])
	}
	return lists, counts
}

func TestMergeDoesNotAllocate(t *testing.T) {
	lists, counts := wanted(t, 1024, 5)
	var g Merged
	g.Merge(lists, counts)
	if n := testing.AllocsPerRun(10, func() { g.Merge(lists, counts) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkMerge(b *testing.B) {
	for _, ranks := range []int{2, 8} {
		b.Run(fmt.Sprint(ranks), func(b *testing.B) {
			lists, counts := wanted(b, 16384, ranks)
			var g Merged
			for b.Loop() {
				g.Merge(lists, counts)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(lists)), "ns/slot")
		})
	}
}
