package data

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Columns of Parquet files that are lists of values, which are bags.

// listEntries is the number of entries of a list column that are read at a time.
const listEntries = 2048

// fillLists sets a part to the elements of the next n rows of a list, as if they were joined to a field of text: a null
// list is an empty bag, a null element a missing id, and a missing id alone an empty bag.
func (c *parquetCursor) fillLists(part *parquetPart, n int) error {
	for {
		w := &c.entries
		if c.entry == w.n {
			if err := c.readEntries(); c.ended && len(part.counts) == n {
				break // the last page has the end of the last row
			} else if err != nil {
				return err
			}
			continue
		}
		level, begins := w.levels[c.entry], w.repeated[c.entry] == 0
		if begins && len(part.counts) == n {
			break
		}
		if begins {
			c.dropMissing(part)
			part.counts = append(part.counts, 0)
		} else if len(part.counts) == 0 || level < c.leaf.element {
			return fmt.Errorf("column %q has elements of no list", c.leaf.Path()[0])
		}
		c.entry++
		isElement := level >= c.leaf.element
		weight, err := c.takeWeight(part, begins, isElement)
		if err != nil {
			return err
		}
		if isElement {
			c.addElement(part, level == w.whole, weight)
		}
	}
	c.dropMissing(part)
	return nil
}

// readEntries reads entries, and converts their values.
func (c *parquetCursor) readEntries() (err error) {
	c.entry, c.bit = 0, 0
	if c.entries, err = c.nextWindow(listEntries); err != nil {
		c.entries = parquetWindow{}
		return err
	}
	s := c.scratch
	if !c.use.isWide() {
		s.narrow = grown(s.narrow, c.entries.present)
		return c.narrowBits(s.narrow, &c.entries)
	}
	s.wide = grown(s.wide, c.entries.present)
	return c.wideBits(s.wide, &c.entries)
}

// takeWeight takes the weight of the next entry: 1, unless the column has weights and this one is no null.
func (c *parquetCursor) takeWeight(part *parquetPart, begins, isElement bool) (float32, error) {
	c.given = false
	from := c.weights
	if from == nil {
		return 1, nil
	}
	w := &from.entries
	for from.entry == w.n {
		if err := from.readEntries(); err != nil {
			return 0, err
		}
	}
	level := w.levels[from.entry]
	if (w.repeated[from.entry] == 0) != begins || (level >= from.leaf.element) != isElement {
		return 0, fmt.Errorf("column %q has ids and weights of other lists", c.leaf.Path()[0])
	}
	if from.entry++; level != w.whole {
		return 1, nil
	}
	bits, what := from.takeValue(uint64(from.scratch.narrow[from.bit]))
	if what != nil {
		what.row, what.what = len(part.counts)-1, "the weight is not a decimal number"
		part.addFault(*what)
	}
	if bits == missingBits { // an empty text
		return 1, nil
	}
	c.given = true
	return math.Float32frombits(uint32(bits)), nil
}

// takeValue takes the next value of a list, of which the bits are given, with the mistake in it.
func (c *parquetCursor) takeValue(bits uint64) (uint64, *rowFault) {
	w := &c.entries
	at := w.first + c.bit
	if w.index != nil {
		at = int(w.index[c.bit])
	}
	c.bit++
	if what, ok := w.in.bad[at]; ok {
		return bits, &rowFault{text: c.faultText(w.in, at, !c.use.isCategory()), what: what}
	}
	return bits, nil
}

// dropMissing removes a missing id that is alone in the last row, and has no weight of its own.
func (c *parquetCursor) dropMissing(p *parquetPart) {
	if n := len(p.counts); n == 0 || p.counts[n-1] != 1 || c.given {
		return
	}
	entry := p.heap[len(p.heap)-c.use.bag.entryBytes():]
	if binary.LittleEndian.Uint64(entry) == c.use.missing {
		p.counts[len(p.counts)-1] = 0
		p.heap = p.heap[:len(p.heap)-len(entry)]
	}
}

// addElement adds the next element to the last row of a part.
func (c *parquetCursor) addElement(part *parquetPart, present bool, weight float32) {
	row, bits := len(part.counts)-1, c.use.missing
	if present {
		var what *rowFault
		if bits, what = c.takeValue(c.scratch.wide[c.bit]); what != nil {
			what.row = row
			part.addFault(*what)
		}
	}
	if part.counts[row] == maxBag { // a small file may name billions of elements
		part.addFault(rowFault{row, nil, bagTooLarge})
		return
	}
	part.counts[row]++
	part.heap = binary.LittleEndian.AppendUint64(part.heap, bits)
	if c.use.bag.weighted {
		part.heap = binary.LittleEndian.AppendUint32(part.heap, math.Float32bits(weight))
	}
}
