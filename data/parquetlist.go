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
			part.dropMissing(c.use)
			part.counts = append(part.counts, 0)
		} else if len(part.counts) == 0 || level < c.leaf.element {
			return fmt.Errorf("column %q has elements of no list", c.leaf.Path()[0])
		}
		c.entry++
		if level >= c.leaf.element {
			c.addElement(part, level == w.whole)
		}
	}
	part.dropMissing(c.use)
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
	s.wide = grown(s.wide, c.entries.present)
	return c.wideBits(s.wide, &c.entries)
}

// dropMissing removes a missing id that is alone in the last row.
func (p *parquetPart) dropMissing(use *parquetUse) {
	if n := len(p.counts); n == 0 || p.counts[n-1] != 1 {
		return
	}
	entry := p.heap[len(p.heap)-use.bag.entryBytes():]
	if binary.LittleEndian.Uint64(entry) == use.missing {
		p.counts[len(p.counts)-1] = 0
		p.heap = p.heap[:len(p.heap)-len(entry)]
	}
}

// addElement adds the next element to the last row of a part.
func (c *parquetCursor) addElement(part *parquetPart, present bool) {
	row, bits, w := len(part.counts)-1, c.use.missing, &c.entries
	if present {
		bits = c.scratch.wide[c.bit]
		at := w.first + c.bit
		if w.index != nil {
			at = int(w.index[c.bit])
		}
		if what, ok := w.in.bad[at]; ok {
			part.faults = append(part.faults, rowFault{row, c.faultText(w.in, at, false), what})
		}
		c.bit++
	}
	part.heap = binary.LittleEndian.AppendUint64(part.heap, bits)
	if c.use.bag.weighted {
		part.heap = binary.LittleEndian.AppendUint32(part.heap, math.Float32bits(1))
	}
	if part.counts[row]++; part.counts[row] == maxBag+1 {
		part.faults = append(part.faults, rowFault{row, nil, bagTooLarge})
	}
}
