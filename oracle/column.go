package oracle

import (
	"math/bits"

	"github.com/ecrec/ecrec/internal/placement"
)

// column is the lookups of one table. Where the table has few rows, they are
// counted row by row; else they are sorted by row. Loops have functions of their
// own, never inlined, so that their variables stay in registers.
type column struct {
	rows    int
	counted bool
	of      []uint32 // of each sample: the id, in the end the row's position in Slots

	// Row id is number id + offset, counted from owner 0's slot `slot` on: that number
	// mod owners is its owner, and div owners says how far behind that slot it is.
	owners, slot, offset uint64

	// Counted: of each row the number of lookups, in the end its position in Slots
	// << 32 | the position in Pos of its next lookup.
	cells []uint64

	// Sorted: of each lookup (owner * span + how far behind slot) << sampleBits | sample,
	// once it is listed position in Slots << sampleBits | sample.
	words   []uint64
	listed  int // words
	span    uint64
	keyBits int
}

// sampleBits is how many bits of a word number its sample. The others have room for
// any row of a table.
const sampleBits = 31

// place is where the next row is listed, and its first lookup.
type place struct{ row, pos int }

// begin makes c the column of table t.
func (c *column) begin(m placement.Map, t, samples int) {
	c.rows = int(m.TableRows(t))
	c.of = resize(c.of, samples)
	c.owners = uint64(m.Owners)
	c.slot, c.offset = uint64(m.Base[t])/c.owners, uint64(m.Base[t])%c.owners
	c.counted = c.rows <= 4*samples // to look at four rows costs less than to sort a lookup
	if c.counted {
		c.cells = resize(c.cells, c.rows)
		clear(c.cells)
		return
	}
	c.words, c.listed = resize(c.words, samples), 0
	c.span = (uint64(c.rows)+c.offset)/c.owners + 1
	c.keyBits = bits.Len64(c.span*c.owners - 1)
}

// count counts the lookups of rows.
//
//go:noinline
func (c *column) count() {
	cells := c.cells
	for _, id := range c.of {
		cells[id]++
	}
}

// gather makes the words that are to be sorted.
//
//go:noinline
func (c *column) gather() {
	owners, offset, span := c.owners, c.offset, c.span
	inverse := (1<<63 + owners - 1) / owners
	words := c.words[:len(c.of)]
	for i, id := range c.of {
		number := uint64(id) + offset
		behind, _ := bits.Mul64(2*number, inverse) // number / owners: exact while number * owners < 1<<63
		words[i] = ((number-behind*owners)*span+behind)<<sampleBits | uint64(i)
	}
}

// listCounted lists the rows of an owner, and where the lookups of each begin.
//
//go:noinline
func (c *column) listCounted(owner int, slots, start []int32, at place) place {
	slot, first := c.slot, owner-int(c.offset) // the first row and its slot
	if first < 0 {
		first += int(c.owners)
		slot++
	}
	cells := c.cells[min(first, len(c.cells)):]
	for i := 0; i < len(cells); i += int(c.owners) {
		if n := cells[i]; n != 0 {
			slots[at.row], start[at.row] = int32(slot), int32(at.pos)
			cells[i] = uint64(at.row)<<32 | uint64(at.pos)
			at.row++
			at.pos += int(n)
		}
		slot++
	}
	return at
}

// placeCounted lists the lookups of all rows.
//
//go:noinline
func (c *column) placeCounted(pos []int32, t, tables int) {
	cells, of := c.cells, c.of
	l := int32(t)
	for i, id := range of {
		next := cells[id]
		cells[id] = next + 1
		of[i] = uint32(next >> 32)
		pos[uint32(next)] = l
		l += int32(tables)
	}
}

// listSorted lists the rows of an owner, the next in order, and where the lookups
// of each begin. Which lookups are of one row is chance, so nothing branches on it.
//
//go:noinline
func (c *column) listSorted(owner int, slots, start []int32, at place) place {
	first := uint64(owner) * c.span
	end, slot := (first+c.span)<<sampleBits, int32(c.slot-first)
	words := c.words[c.listed:]
	start[at.row] = int32(at.pos)
	row, last, i := at.row-1, ^uint64(0), 0
	for i < len(words) && words[i] < end {
		w := words[i]
		key := w >> sampleBits
		if key != last {
			row++
		}
		last = key
		words[i] = uint64(row)<<sampleBits | w&(1<<sampleBits-1)
		i++
		slots[row], start[row+1] = int32(key)+slot, int32(at.pos+i)
	}
	c.listed += i
	return place{row + 1, at.pos + i}
}

// placeSorted lists the lookups of the rows listed last.
//
//go:noinline
func (c *column) placeSorted(pos []int32, t, tables int) {
	words, of := c.words[c.listed-len(pos):c.listed], c.of
	pos = pos[:len(words)]
	for i, w := range words {
		sample := w & (1<<sampleBits - 1)
		pos[i] = int32(int(sample)*tables + t)
		of[sample] = uint32(w >> sampleBits)
	}
}
