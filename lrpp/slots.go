package lrpp

import (
	"fmt"
	"math/bits"
)

// rowKey names a row among those of all owners.
type rowKey uint64

const (
	changed rowKey = 1 << 61 // it was updated since it came or was written back
	present rowKey = 1 << 62 // a slot of the cache holds a row
	written rowKey = 1 << 63 // this trainer is the one that writes it back

	flags = changed | present | written
)

func keyOf(owner int, slot int32) rowKey { return present | rowKey(owner)<<32 | rowKey(uint32(slot)) }

func (k rowKey) owner() int  { return int(k &^ flags >> 32) }
func (k rowKey) slot() int32 { return int32(uint32(k)) }
func (k rowKey) row() rowKey { return k &^ (written | changed) }

// owed reports whether this trainer has something of the row to write back.
func (k rowKey) owed() bool { return k&(written|changed) == written|changed }

// slotTable says where in a trainer's cache rows stand, as of the step that is
// planned. Rows are found by open addressing with linear probing; a row that
// leaves has those behind it moved up.
type slotTable struct {
	limit int      // slots that there are
	keys  []rowKey // by slot; 0: free
	free  []int32  // the one freed last is taken first
	cells []int32  // slot + 1; 0: none
	rows  int

	touched rowKey // keeps touch from being left out
}

const leastCells = 1 << 10

func (t *slotTable) home(k rowKey) int {
	const golden = 0x9e3779b97f4a7c15 // 2^64 / golden ratio, odd
	return int(uint64(k) * golden >> (64 - uint(bits.TrailingZeros(uint(len(t.cells))))))
}

// cell is where k stands, or the free one where it would.
func (t *slotTable) cell(k rowKey) int {
	c := t.home(k)
	for t.cells[c] != 0 && t.keys[t.cells[c]-1] != k {
		c = (c + 1) & (len(t.cells) - 1)
	}
	return c
}

// find is the slot of a row that is cached.
func (t *slotTable) find(k rowKey) int32 {
	if t.rows > 0 {
		if s := t.cells[t.cell(k)]; s != 0 {
			return s - 1
		}
	}
	panic(fmt.Sprintf("lrpp: slot %d of owner %d is not cached", k.slot(), k.owner()))
}

// touchBlock is how many rows are touched before they are looked up.
const touchBlock = 512

// touch reads what looking up an owner's rows will read. No look depends on another
// here, so that many are under way at once.
func (t *slotTable) touch(owner int, words []uint64) {
	if t.rows == 0 {
		return
	}
	var at [touchBlock]int32
	for i, w := range words {
		at[i] = t.cells[t.home(keyOf(owner, word(w).slot()))]
	}
	for _, slot := range at[:len(words)] {
		if slot != 0 {
			t.touched += t.keys[slot-1]
		}
	}
}

// take gives a row a slot.
func (t *slotTable) take(k rowKey) int32 {
	if 2*(t.rows+1) > len(t.cells) {
		t.grow()
	}
	c := t.cell(k)
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

// release takes a slot's row out of the table.
func (t *slotTable) release(slot int32) {
	mask := len(t.cells) - 1
	hole := t.cell(t.keys[slot])
	for c := (hole + 1) & mask; t.cells[c] != 0; c = (c + 1) & mask {
		// A row may move up to the hole unless its home lies behind that.
		if home := t.home(t.keys[t.cells[c]-1]); (c-home)&mask >= (c-hole)&mask {
			t.cells[hole], hole = t.cells[c], c
		}
	}
	t.cells[hole] = 0
	t.keys[slot] = 0
	t.free = append(t.free, slot)
	t.rows--
}

func (t *slotTable) grow() {
	t.cells = make([]int32, max(leastCells, 2*len(t.cells)))
	for slot, k := range t.keys {
		if k != 0 {
			t.cells[t.cell(k)] = int32(slot) + 1
		}
	}
}
