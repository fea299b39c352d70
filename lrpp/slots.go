package lrpp

import (
	"fmt"
	"math/bits"
)

// rowKey identifies a row among those of all owners.
type rowKey uint64

const (
	changed rowKey = 1 << 61 // updated since it was fetched or written back
	present rowKey = 1 << 62 // a slot of the cache holds a row
	written rowKey = 1 << 63 // this trainer writes it back

	flags = changed | present | written
)

func keyOf(owner int, slot int32) rowKey { return present | rowKey(owner)<<32 | rowKey(uint32(slot)) }

func (k rowKey) owner() int  { return int(k &^ flags >> 32) }
func (k rowKey) slot() int32 { return int32(uint32(k)) }
func (k rowKey) row() rowKey { return k &^ (written | changed) }

// mustWriteBack reports whether this trainer has an update of the row to write back.
func (k rowKey) mustWriteBack() bool { return k&(written|changed) == written|changed }

// slotTable maps rows to slots of a trainer's cache, as of the step being planned. It is
// a hash table with open addressing and linear probing. When a row is removed, the rows
// behind it move up.
type slotTable struct {
	limit int      // number of slots of the cache
	keys  []rowKey // by slot; 0: free
	free  []int32  // a stack: the slot freed last is assigned first
	cells []int32  // slot + 1; 0: none
	rows  int

	touched rowKey // keeps the compiler from removing touchRows
}

const leastCells = 1 << 10

func (t *slotTable) homeCell(k rowKey) int {
	const golden = 0x9e3779b97f4a7c15 // 2^64 / golden ratio, odd
	return int(uint64(k) * golden >> (64 - uint(bits.TrailingZeros(uint(len(t.cells))))))
}

// cellOf returns the cell of k, or the free cell where k belongs.
func (t *slotTable) cellOf(k rowKey) int {
	c := t.homeCell(k)
	for t.cells[c] != 0 && t.keys[t.cells[c]-1] != k {
		c = (c + 1) & (len(t.cells) - 1)
	}
	return c
}

// slotOf returns the slot of a cached row.
func (t *slotTable) slotOf(k rowKey) int32 {
	if t.rows > 0 {
		if s := t.cells[t.cellOf(k)]; s != 0 {
			return s - 1
		}
	}
	panic(fmt.Sprintf("lrpp: slot %d of owner %d is not cached", k.slot(), k.owner()))
}

// touchBlock is the number of rows touched before they are looked up.
const touchBlock = 512

// touchRows reads the memory that looking up an owner's rows will read. These reads do
// not depend on each other, so that many cache misses overlap.
func (t *slotTable) touchRows(owner int, words []uint64) {
	if t.rows == 0 {
		return
	}
	var at [touchBlock]int32
	for i, w := range words {
		at[i] = t.cells[t.homeCell(keyOf(owner, rowOp(w).slot()))]
	}
	for _, slot := range at[:len(words)] {
		if slot != 0 {
			t.touched += t.keys[slot-1]
		}
	}
}

// assignSlot assigns a slot to a row.
func (t *slotTable) assignSlot(k rowKey) int32 {
	if 2*(t.rows+1) > len(t.cells) {
		t.growCells()
	}
	c := t.cellOf(k)
	if t.cells[c] != 0 {
		panic(fmt.Sprintf("lrpp: slot %d of owner %d is fetched while it is cached", k.slot(), k.owner()))
	}
	var slot int32
	if n := len(t.free); n > 0 {
		slot, t.free = t.free[n-1], t.free[:n-1]
	} else {
		if slot = int32(len(t.keys)); len(t.keys) == t.limit {
			panic(fmt.Sprintf("lrpp: more than %d rows are cached", t.limit))
		}
		t.keys = append(t.keys, 0)
	}
	t.keys[slot], t.cells[c] = k, slot+1
	t.rows++
	return slot
}

// releaseSlot removes a slot's row from the table.
func (t *slotTable) releaseSlot(slot int32) {
	mask := len(t.cells) - 1
	hole := t.cellOf(t.keys[slot])
	for c := (hole + 1) & mask; t.cells[c] != 0; c = (c + 1) & mask {
		// A row may move up to the hole unless its home cell lies behind the hole.
		if home := t.homeCell(t.keys[t.cells[c]-1]); (c-home)&mask >= (c-hole)&mask {
			t.cells[hole], hole = t.cells[c], c
		}
	}
	t.cells[hole] = 0
	t.keys[slot] = 0
	t.free = append(t.free, slot)
	t.rows--
}

func (t *slotTable) growCells() {
	t.cells = make([]int32, max(leastCells, 2*len(t.cells)))
	for slot, k := range t.keys {
		if k != 0 {
			t.cells[t.cellOf(k)] = int32(slot) + 1
		}
	}
}
