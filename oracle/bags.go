package oracle

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/placement"
)

// beginBags prepares each table for its lookups, and returns an upper limit of the number of
// distinct rows.
func (p *Plan) beginBags(m placement.Map, l Lookups) (rows int) {
	p.countBags(m, l)
	p.tables = resize(p.tables, m.Tables())
	for t := range p.tables {
		p.tables[t].from = p.tables[t].from[:0]
	}
	for f := range p.features {
		t := l.tableOf(f)
		p.tables[t].from = append(p.tables[t].from, f)
	}
	for t := range p.tables {
		c, n := &p.tables[t], 0
		for _, f := range c.from {
			n += p.features[f]
		}
		c.beginTable(m, t, n)
		c.at, c.cell = resize(c.at, n), resize(c.cell, n)
		c.weight = c.weight[:0]
		if l.Weights != nil {
			c.weight = resize(c.weight, n)
		}
		rows += min(c.rows, n)
	}
	return rows
}

func (l *Lookups) tableOf(f int) int {
	if l.TableOf == nil {
		return f
	}
	return l.TableOf[f]
}

// countBags counts the lookups of each feature.
func (p *Plan) countBags(m placement.Map, l Lookups) {
	features := m.Tables()
	if l.TableOf != nil {
		features = len(l.TableOf)
	}
	p.features = resize(p.features, features)
	cells := len(l.IDs)
	if l.Offsets != nil {
		cells = len(l.Offsets) - 1
	}
	if cells%features != 0 || l.Offsets != nil && int(l.Offsets[cells]) != len(l.IDs) || l.Weights != nil && len(l.Weights) != len(l.IDs) {
		panic(fmt.Sprintf("oracle: %d cells of %d features with %d ids and %d weights", cells, features, len(l.IDs), len(l.Weights)))
	}
	for f := range p.features {
		p.features[f] = cells / features
	}
	if l.Offsets == nil {
		return
	}
	clear(p.features)
	for offsets := l.Offsets; len(offsets) > features; offsets = offsets[features:] {
		for f := range p.features {
			p.features[f] += int(offsets[f+1] - offsets[f])
		}
	}
}

// readBags distributes the lookups to the tables. Those of a table are in lookup order.
func (p *Plan) readBags(l Lookups) {
	features := len(p.features)
	for t := range p.tables {
		c := &p.tables[t]
		n := 0
		for first := 0; n < len(c.of); first += features {
			for _, f := range c.from {
				n = c.readBag(n, first+f, l)
			}
		}
	}
}

// readBag appends the lookups of a cell to the first n of the table.
func (c *tableLookups) readBag(n, cell int, l Lookups) int {
	lo, hi := cell, cell+1
	if l.Offsets != nil {
		lo, hi = int(l.Offsets[cell]), int(l.Offsets[cell+1])
	}
	copy(c.of[n:], l.IDs[lo:hi])
	if l.Weights != nil {
		copy(c.weight[n:], l.Weights[lo:hi])
	}
	at, cells := c.at[n:][:hi-lo], c.cell[n:][:hi-lo]
	for i := range at {
		at[i], cells[i] = int32(lo+i), int32(cell)
	}
	return n + hi - lo
}

// placeCountedBags is placeCounted for lookups of bags.
//
//go:noinline
func (c *tableLookups) placeCountedBags(p *Plan) {
	pos, factors, weight := p.Pos, p.Factors, c.weight
	cells, of, cell := c.cells, c.of, c.cell[:len(c.of)]
	for i, id := range of {
		next := cells[id]
		cells[id] = next + 1
		of[i] = uint32(next >> 32)
		pos[uint32(next)] = cell[i]
		if len(weight) > 0 {
			factors[uint32(next)] = weight[i]
		}
	}
}

// placeSortedBags is placeSorted for lookups of bags, at positions [first, end).
//
//go:noinline
func (c *tableLookups) placeSortedBags(p *Plan, first, end int) {
	pos, weight := p.Pos[first:end], c.weight
	words, of, cell := c.words[c.listed-len(pos):c.listed], c.of, c.cell
	for i, w := range words {
		n := w & (1<<sampleBits - 1)
		pos[i] = cell[n]
		of[n] = uint32(w >> sampleBits)
		if len(weight) > 0 {
			p.Factors[first+i] = weight[n]
		}
	}
}

// writeBagIndex gathers Index from the tables.
func (p *Plan) writeBagIndex() {
	for t := range p.tables {
		c := &p.tables[t]
		for i, u := range c.of {
			p.Index[c.at[i]] = int32(u)
		}
	}
}
