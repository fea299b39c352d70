package oracle

import (
	"fmt"
	"math/bits"

	"github.com/ecrec/ecrec/internal/placement"
)

// numbering numbers the distinct rows of a slice in the order of their first
// lookups: rows looked up at about the same time lie together, and those looked
// up often lie in front, so what is kept per row stays in the cache.
//
// Numbers are found by open addressing with linear probing. Lookups go through in
// blocks, in three loops: probe reads where each row belongs and has no branch to
// mispredict, so that many reads are under way at once; insert does what that
// left over; count counts. Loops have functions of their own, never inlined, so
// that their variables stay in registers.
type numbering struct {
	// cells are (global row + 1) << numberBits | number; 0 is free. Their number is a
	// power of two that follows the slices seen.
	cells []uint64
	shift uint // a row belongs in cell (global row + 1) * golden >> shift
	// found holds the n distinct global rows, seen their first lookup << 32 | number
	// of lookups.
	found, seen []uint64
	n           int

	base   []uint64     // 1 + the first global row of each lookup's table
	absent [block]int32 // lookups of a block whose rows are not where they belong
}

const (
	numberBits = 26
	maxRows    = 1<<(64-numberBits) - 1 // of all tables
	block      = 1024                   // lookups
	leastBits  = 10                     // of the number of cells
	mostBits   = 27
	// golden is 2^64 / golden ratio, odd: its multiples are spread evenly.
	golden = 0x9e3779b97f4a7c15
)

// fill finds the distinct rows of ids, (samples, tables), and sets the number of
// each lookup's.
func (x *numbering) fill(m placement.Map, ids []uint32, number []int32) {
	tables := m.Tables()
	x.base = resize(x.base, tables+block) // every block begins in the first period
	for t := range tables {
		x.base[t] = uint64(m.Base[t]) + 1
	}
	for n := tables; n < len(x.base); n *= 2 {
		copy(x.base[n:], x.base[:n])
	}
	// As many cells as before, but no more than the slice could need: clearing them
	// in order costs little and brings them into the cache.
	cellBits := max(leastBits, min(bits.Len(uint(cap(x.cells)))-1, bits.Len(uint(len(ids)))+1))
	for ; !x.scan(cellBits, tables, ids, number); cellBits++ {
		if cellBits == mostBits {
			panic(fmt.Sprintf("oracle: a slice needs more than %d distinct rows; use smaller batches or more ranks", 1<<numberBits))
		}
	}
}

// scan is false when so many cells are too few.
func (x *numbering) scan(cellBits, tables int, ids []uint32, number []int32) bool {
	x.shift = uint(64 - cellBits)
	if cap(x.cells) < 1<<cellBits {
		x.cells = make([]uint64, 1<<cellBits)
	}
	x.cells = x.cells[:1<<cellBits]
	clear(x.cells)
	room := min(len(x.cells)*5/8, 1<<numberBits) // probes stay short
	x.found, x.seen, x.n = resize(x.found, room), resize(x.seen, room), 0
	for first := 0; first < len(ids); first += block {
		last := min(first+block, len(ids))
		in, base, out := ids[first:last], x.base[first%tables:], number[first:last]
		if !x.insert(x.probe(in, base, out), in, base, out, first) {
			return false
		}
		x.count(out)
	}
	return true
}

// probe finds the lookups of a block whose rows are where they belong, and lists
// the others.
//
//go:noinline
func (x *numbering) probe(ids []uint32, base []uint64, number []int32) (absent []int32) {
	cells, shift := x.cells, x.shift
	base, number = base[:len(ids)], number[:len(ids)]
	n := 0
	for i, id := range ids {
		row := base[i] + uint64(id)
		d := cells[row*golden>>(shift&63)] - row<<numberBits
		number[i] = int32(d)
		x.absent[n&(block-1)] = int32(i)
		if d >= 1<<numberBits {
			n++
		}
	}
	return x.absent[:n]
}

// insert numbers those lookups of a block whose rows were not where they belong;
// false when there is no room. first is the block's first lookup.
//
//go:noinline
func (x *numbering) insert(absent []int32, ids []uint32, base []uint64, number []int32, first int) bool {
	cells := x.cells
	for _, i := range absent {
		row := base[i] + uint64(ids[i])
		c := int(row * golden >> (x.shift & 63))
		e := cells[c]
		for e != 0 && e>>numberBits != row {
			c = (c + 1) & (len(cells) - 1)
			e = cells[c]
		}
		if e == 0 {
			if x.n == len(x.found) {
				return false
			}
			e = row<<numberBits | uint64(x.n)
			cells[c] = e
			x.found[x.n] = row - 1
			x.seen[x.n] = uint64(first+int(i)) << 32
			x.n++
		}
		number[i] = int32(e & (1<<numberBits - 1))
	}
	return true
}

// count counts the lookups of rows.
//
//go:noinline
func (x *numbering) count(number []int32) {
	seen := x.seen
	for _, n := range number {
		seen[n]++
	}
}
