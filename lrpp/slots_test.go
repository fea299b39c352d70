package lrpp

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A slotTable agrees with a map, and assigns no slot twice.
func TestSlotTable(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		limit := 1 + r.IntN(4000)
		table := slotTable{limit: limit}
		where := map[rowKey]int32{}
		var keys []rowKey
		taken := map[int32]bool{}
		for range 12 * limit {
			if n := len(keys); n < limit && (n == 0 || r.IntN(5) > 1) {
				k := keyOf(r.IntN(3), int32(r.IntN(1<<20)))
				if _, ok := where[k]; ok {
					continue
				}
				slot := table.assignSlot(k)
				if taken[slot] || int(slot) >= limit {
					t.Fatalf("slot %d of %d is assigned while it is in use: %t", slot, limit, taken[slot])
				}
				where[k], taken[slot], keys = slot, true, append(keys, k)
				continue
			}
			i := r.IntN(len(keys))
			k := keys[i]
			if got := table.slotOf(k); got != where[k] {
				t.Fatalf("row %x is found at slot %d, want %d", k, got, where[k])
			}
			if r.IntN(2) == 0 {
				table.releaseSlot(where[k])
				delete(taken, where[k])
				delete(where, k)
				keys[i] = keys[len(keys)-1]
				keys = keys[:len(keys)-1]
			}
		}
		if table.rows != len(where) || len(table.keys)-len(table.free) != len(where) {
			t.Fatalf("%d rows of %d slots, %d free; want %d", table.rows, len(table.keys), len(table.free), len(where))
		}
	}
}
