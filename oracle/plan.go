package oracle

import (
	"fmt"
	"math"

	"github.com/ecrec/ecrec/internal/placement"
)

// Plan is what one rank's slice of one batch needs. Its slices are reused by the
// next call that fills it.
type Plan struct {
	// Slots lists the distinct rows: those of owner 0 by ascending slot, then those
	// of owner 1, and so on. PerOwner says how many each owner has.
	Slots    []int32
	PerOwner []int
	// Index says for each lookup which row, a position in Slots, it reads.
	Index []int32
	// Start and Pos list the lookups of each row in sample order: those of row u are
	// Pos[Start[u]:Start[u+1]].
	Start, Pos []int32

	columns []column
	sort    sorter
}

// Fill plans a slice: ids is (samples, tables), each below its table's rows.
func (p *Plan) Fill(m placement.Map, ids []uint32) {
	if m.Slots(0) > math.MaxInt32 || len(ids) > math.MaxInt32 { // owner 0 has the most slots
		panic(fmt.Sprintf("oracle: %d lookups of %d rows on %d owners; at most %d of each owner's can be planned",
			len(ids), m.Rows(), m.Owners, math.MaxInt32))
	}
	rows := p.begin(m, len(ids)/m.Tables())
	p.Slots, p.Start, p.PerOwner = resize(p.Slots, rows+1), resize(p.Start, rows+1), resize(p.PerOwner, m.Owners)
	p.Index, p.Pos = resize(p.Index, len(ids)), resize(p.Pos, len(ids))
	p.read(ids)
	for t := range p.columns {
		if c := &p.columns[t]; c.counted {
			c.count()
		} else {
			c.gather()
			c.words = p.sort.run(c.words, sampleBits, c.keyBits)
		}
	}
	p.list()
	p.write()
}

// begin makes a column of so many samples for each table, and says how many
// distinct rows there can be.
func (p *Plan) begin(m placement.Map, samples int) (rows int) {
	p.columns = resize(p.columns, m.Tables())
	for t := range p.columns {
		c := &p.columns[t]
		c.begin(m, t, samples)
		rows += min(c.rows, samples)
	}
	return rows
}

// list lists the distinct rows, and the lookups of each: an owner's rows are those
// of one table after the other.
func (p *Plan) list() {
	var at place
	tables := len(p.columns)
	for o := range p.PerOwner {
		first := at.row
		for t := range p.columns {
			c, begin := &p.columns[t], at
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
	for t := range p.columns {
		if c := &p.columns[t]; c.counted {
			c.placeCounted(p.Pos, t, tables)
		}
	}
}
