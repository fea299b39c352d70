package oracle

import (
	"math/bits"

	"github.com/ecrec/ecrec/internal/placement"
)

// tableByTable plans slices of single ids on one thread, without buckets: each table has few
// lookups then, and dealing them to buckets costs more than it saves.
type tableByTable struct {
	tables []tableLookups
	sort   sorter
}

// fill plans a slice. Its lists have the right length, but Slots and Start.
func (x *tableByTable) fill(p *Plan, m placement.Map, ids []uint32) {
	rows := x.beginTables(m, len(ids)/m.Tables())
	p.Slots, p.Start, p.PerOwner = resize(p.Slots, rows+1), resize(p.Start, rows+1), resize(p.PerOwner, m.Owners)
	x.readIDs(ids)
	for t := range x.tables {
		if c := &x.tables[t]; c.counted {
			c.countLookups()
		} else {
			c.packLookups()
			c.words = x.sort.sortWords(c.words, sampleBits, c.keyBits)
		}
	}
	x.listRows(p)
	x.writeIndex(p.Index)
}

// beginTables prepares each table for the given number of samples, and returns an upper
// limit of the number of distinct rows.
func (x *tableByTable) beginTables(m placement.Map, samples int) (rows int) {
	x.tables = resize(x.tables, m.Tables())
	for t := range x.tables {
		c := &x.tables[t]
		c.beginTable(m, t, samples)
		rows += min(c.rows, samples)
	}
	return rows
}

// listRows lists the distinct rows and the lookups of each. The rows of an owner are
// listed table by table.
func (x *tableByTable) listRows(p *Plan) {
	var at place
	tables := len(x.tables)
	for o := range p.PerOwner {
		first := at.row
		for t := range x.tables {
			c, begin := &x.tables[t], at
			if c.counted {
				at = c.listCounted(o, p.Slots, p.Start, begin)
			} else {
				at = c.listSorted(o, p.Slots, p.Start, begin)
				c.placeSorted(p.Pos[begin.pos:at.pos], t, tables)
			}
		}
		p.PerOwner[o] = at.row - first
	}
	p.Start[at.row] = int32(at.pos)
	p.Slots, p.Start = p.Slots[:at.row], p.Start[:at.row+1]
	for t := range x.tables {
		if c := &x.tables[t]; c.counted {
			c.placeCounted(p.Pos, t, tables)
		}
	}
}

// tableLookups holds the lookups of one table in a slice. If the table has few rows, its
// lookups are counted row by row; otherwise they are sorted by row. Each loop is a
// function that is never inlined, so that its variables stay in registers.
type tableLookups struct {
	rows    int
	counted bool
	of      []uint32 // of each sample: the id, finally the row's position in Slots

	// Row id has the number id + offset, counted from owner 0's slot `slot`. That number
	// modulo owners is the row's owner. The number divided by owners is the distance of
	// the row's slot from that slot.
	owners, slot, offset uint64

	// If counted: the number of lookups of each row, finally its position in Slots << 32
	// | the position in Pos of its next lookup.
	cells []uint64

	// If sorted: of each lookup (owner * span + distance from slot) << sampleBits |
	// sample. Once the lookup's row is listed: position in Slots << sampleBits | sample.
	words   []uint64
	listed  int // number of words whose rows are listed
	span    uint64
	keyBits int
}

// sampleBits is the number of low bits of a word that hold its sample. The other bits can hold
// any row of a table.
const sampleBits = 31

// place is the position in Slots of the next row, and the position in Pos of its first
// lookup.
type place struct{ row, pos int }

// beginTable prepares c for the lookups of table t, one of each sample.
func (c *tableLookups) beginTable(m placement.Map, t, samples int) {
	c.rows = int(m.TableRows(t))
	c.of = resize(c.of, samples)
	c.owners = uint64(m.Owners)
	c.slot, c.offset = uint64(m.Base[t])/c.owners, uint64(m.Base[t])%c.owners
	c.counted = c.rows <= 4*samples // visiting four rows costs less than sorting a lookup
	if c.counted {
		c.cells = resize(c.cells, c.rows)
		clear(c.cells)
		return
	}
	c.words, c.listed = resize(c.words, samples), 0
	c.span = (uint64(c.rows)+c.offset)/c.owners + 1
	c.keyBits = bits.Len64(c.span*c.owners - 1)
}

// countLookups counts the lookups of each row.
//
//go:noinline
func (c *tableLookups) countLookups() {
	cells := c.cells
	for _, id := range c.of {
		cells[id]++
	}
}

// packLookups writes the words to be sorted.
//
//go:noinline
func (c *tableLookups) packLookups() {
	owners, offset, span := c.owners, c.offset, c.span
	inverse := (1<<63 + owners - 1) / owners
	words := c.words[:len(c.of)]
	for i, id := range c.of {
		number := uint64(id) + offset
		behind, _ := bits.Mul64(2*number, inverse) // number / owners: exact while number * owners < 1<<63
		words[i] = ((number-behind*owners)*span+behind)<<sampleBits | uint64(i)
	}
}

// listCounted lists an owner's rows, and where the lookups of each begin.
//
//go:noinline
func (c *tableLookups) listCounted(owner int, slots, start []int32, at place) place {
	slot, first := c.slot, owner-int(c.offset) // the owner's first row and its slot
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
func (c *tableLookups) placeCounted(pos []int32, t, tables int) {
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

// listSorted lists an owner's rows and where the lookups of each begin. Owners must be
// listed in ascending order. It has no branch on whether two lookups name the same row,
// because that is random.
//
//go:noinline
func (c *tableLookups) listSorted(owner int, slots, start []int32, at place) place {
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

// placeSorted lists the lookups of the rows that the last listSorted listed.
//
//go:noinline
func (c *tableLookups) placeSorted(pos []int32, t, tables int) {
	words, of := c.words[c.listed-len(pos):c.listed], c.of
	pos = pos[:len(words)]
	for i, w := range words {
		sample := w & (1<<sampleBits - 1)
		pos[i] = int32(int(sample)*tables + t)
		of[sample] = uint32(w >> sampleBits)
	}
}
