package data

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Columns of Parquet files that are bags: lists, and texts that a separator splits.

// takeLists returns the elements of the next n rows of a list, as if they were joined to a field of text: a null list
// is an empty bag, a null element a missing id, and a missing id alone an empty bag.
func (c *parquetCursor) takeLists(n int) ([]parquetPart, error) {
	part := parquetPart{use: c.use, counts: make([]int32, 0, n)}
	whole := byte(c.leaf.MaxDefinitionLevel())
	for {
		if c.row == c.rows {
			if err := c.file.guard(c.readPage); c.ended && len(part.counts) == n {
				break // the last page has the end of the last row
			} else if err != nil {
				return nil, err
			}
			continue
		}
		level, begins := c.levels[c.row], c.repeated[c.row] == 0
		if begins && len(part.counts) == n {
			break
		}
		if begins {
			part.dropMissing()
			part.counts = append(part.counts, 0)
		} else if len(part.counts) == 0 || level < c.element {
			return nil, c.file.damaged(fmt.Errorf("column %q has elements of no list", c.leaf.Path()[0]))
		}
		c.row++
		if level < c.element {
			continue
		}
		if err := c.addElement(&part, level == whole); err != nil {
			return nil, err
		}
	}
	part.dropMissing()
	part.rows = n
	return []parquetPart{part}, nil
}

// dropMissing removes a missing id that is alone in the last row.
func (p *parquetPart) dropMissing() {
	if n := len(p.counts); n == 0 || p.counts[n-1] != 1 {
		return
	}
	entry := p.heap[len(p.heap)-p.use.bag.entryBytes():]
	if binary.LittleEndian.Uint64(entry) == p.use.missing {
		p.counts[len(p.counts)-1] = 0
		p.heap = p.heap[:len(p.heap)-len(entry)]
	}
}

// addElement adds the next element to the last row of a part.
func (c *parquetCursor) addElement(part *parquetPart, present bool) error {
	row, bits := len(part.counts)-1, c.use.missing
	if present {
		at := c.value
		if at >= c.countValues() {
			return c.file.damaged(fmt.Errorf("column %q has too few values", c.leaf.Path()[0]))
		}
		if c.value++; c.index != nil {
			if c.use.texts != nil {
				c.use.addTexts(c.words, c.index[at:at+1])
			}
			at = int(c.index[at])
		}
		bits = c.in.converted[at]
		if what, ok := c.in.bad[at]; ok {
			part.faults = append(part.faults, rowFault{row, c.in.textOf(at, false, nil), what})
		}
	}
	part.heap = binary.LittleEndian.AppendUint64(part.heap, bits)
	if c.use.bag.weighted {
		part.heap = binary.LittleEndian.AppendUint32(part.heap, math.Float32bits(1))
	}
	if part.counts[row]++; part.counts[row] == maxBag+1 {
		part.faults = append(part.faults, rowFault{row, nil, bagTooLarge})
	}
	return nil
}

// takeFields returns the ids of the next n fields, of a column with one value a row: as those of a CSV file.
func (c *parquetCursor) takeFields(n int64) ([]parquetPart, error) {
	f := c.use.bag
	if f.separator == 0 {
		return nil, fileErr(c.file.name, "column %q is named in data.csv.bags, and is no list; set data.csv.separator, or remove it there", c.leaf.Name())
	}
	fields, err := c.takeRows(n)
	if err != nil {
		return nil, err
	}
	part, ch := parquetPart{use: c.use, rows: int(n)}, chunk{texts: c.use.texts}
	var scratch [64]byte
	var slot [8]byte
	for i := range fields {
		fields[i].eachValue(func(at int) {
			var text []byte
			if at >= 0 {
				text = fields[i].in.textOf(at, false, scratch[:])
			}
			begin := len(ch.heap)
			what := f.storeBag(&ch, c.use.form, text, slot[:], begin)
			if what != "" {
				ch.heap = ch.heap[:begin]
				part.faults = append(part.faults, rowFault{len(part.counts), append([]byte(nil), text...), what})
			}
			part.counts = append(part.counts, int32((len(ch.heap)-begin)/f.entryBytes()))
		})
	}
	part.heap = ch.heap
	return []parquetPart{part}, nil
}
