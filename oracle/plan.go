package oracle

import (
	"fmt"
	"math"

	"github.com/ecrec/ecrec/internal/placement"
)

// Plan lists the rows that one rank's slice of a batch needs. Its slices are reused by
// the next call of Fill.
type Plan struct {
	// Slots lists the distinct rows: those of owner 0 by ascending slot, then those of
	// owner 1, and so on. PerOwner is the number of rows of each owner.
	Slots    []int32
	PerOwner []int
	// Index is the row that each lookup reads, as a position in Slots.
	Index []int32
	// Start and Pos list the cells of the lookups of each row, in lookup order. Those of
	// row u are Pos[Start[u]:Start[u+1]]. A row that a bag has twice has its cell twice.
	// If every bag has one id, a lookup and its cell have the same number.
	Start, Pos []int32
	// Factors are the weights of the lookups of Pos, empty if lookups have none.
	Factors []float32

	tables   []tableLookups
	features []int // the number of lookups of each feature, if they are bags
	sort     sorter
}

// Lookups are those of a slice.
type Lookups struct {
	// IDs holds the id of each lookup, below the number of rows of its table.
	IDs []uint32
	// Offsets has one entry more than there are cells. The lookups of cell c are numbers
	// Offsets[c] to Offsets[c+1]-1. Nil: each cell has one.
	Offsets []int32
	// Weights holds the weight of each lookup. Nil: all are 1.
	Weights []float32
	// TableOf is the table of each feature. Nil: feature f looks up table f.
	TableOf []int
}

// Fill plans a slice.
func (p *Plan) Fill(m placement.Map, l Lookups) {
	ids := l.IDs
	if m.Slots(0) > math.MaxInt32 || len(ids) > math.MaxInt32 || len(l.Offsets) > math.MaxInt32 { // owner 0 has the most slots
		panic(fmt.Sprintf("oracle: %d lookups of %d rows on %d owners; a plan covers at most %d lookups, and as many rows of each owner",
			len(ids), m.Rows(), m.Owners, math.MaxInt32))
	}
	bags := l.Offsets != nil || l.Weights != nil || l.TableOf != nil
	rows := 0
	if bags {
		rows = p.beginBags(m, l)
	} else {
		rows = p.beginTables(m, len(ids)/m.Tables())
	}
	p.Slots, p.Start, p.PerOwner = resize(p.Slots, rows+1), resize(p.Start, rows+1), resize(p.PerOwner, m.Owners)
	p.Index, p.Pos, p.Factors = resize(p.Index, len(ids)), resize(p.Pos, len(ids)), resize(p.Factors, len(l.Weights))
	if bags {
		p.readBags(l)
	} else {
		p.readIDs(ids)
	}
	for t := range p.tables {
		if c := &p.tables[t]; c.counted {
			c.countLookups()
		} else {
			c.packLookups()
			c.words = p.sort.sortWords(c.words, sampleBits, c.keyBits)
		}
	}
	p.listRows(bags)
	if bags {
		p.writeBagIndex()
	} else {
		p.writeIndex()
	}
}

// beginTables prepares each table for the given number of samples, and returns an upper
// limit of the number of distinct rows.
func (p *Plan) beginTables(m placement.Map, samples int) (rows int) {
	p.tables = resize(p.tables, m.Tables())
	for t := range p.tables {
		c := &p.tables[t]
		c.beginTable(m, t, samples)
		rows += min(c.rows, samples)
	}
	return rows
}

// listRows lists the distinct rows and the lookups of each. The rows of an owner are
// listed table by table.
func (p *Plan) listRows(bags bool) {
	var at place
	tables := len(p.tables)
	for o := range p.PerOwner {
		first := at.row
		for t := range p.tables {
			c, begin := &p.tables[t], at
			if c.counted {
				at = c.listCounted(o, p.Slots, p.Start, begin)
			} else {
				at = c.listSorted(o, p.Slots, p.Start, begin)
				if bags {
					c.placeSortedBags(p, begin.pos, at.pos)
				} else {
					c.placeSorted(p.Pos[begin.pos:at.pos], t, tables)
				}
			}
		}
		p.PerOwner[o] = at.row - first
	}
	p.Start[at.row] = int32(at.pos)
	p.Slots, p.Start = p.Slots[:at.row], p.Start[:at.row+1]
	for t := range p.tables {
		switch c := &p.tables[t]; {
		case c.counted && bags:
			c.placeCountedBags(p)
		case c.counted:
			c.placeCounted(p.Pos, t, tables)
		}
	}
}
