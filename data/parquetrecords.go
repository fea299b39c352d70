package data

import (
	"encoding/binary"
)

// parquetRecords makes the records of a chunk, a column at a time.
type parquetRecords struct {
	c       *chunk
	size    int
	bad     map[int]fault // by row of the chunk
	scratch []uint64

	// Of bags, for each row: the place of its ids in the heap, and the number of those that are there already.
	entry       int
	begin, done []uint32
}

// parseChunk makes the records of a chunk's rows.
func (f *parquetFormat) parseChunk(c *chunk, file string) {
	p := parquetRecords{c: c, size: f.recordBytes(), scratch: make([]uint64, c.rows)}
	c.records = grown(c.records, c.rows*p.size)
	p.findFaults()
	if f.bags != nil {
		p.entry = f.entryBytes()
		p.placeBags()
	}
	at, narrow := 0, len(f.headNames())+len(f.dense)
	for j, parts := range c.parts {
		row := 0
		for i := range parts {
			part, to := &parts[i], c.records[row*p.size+at:]
			switch {
			case part.counts != nil:
				p.storeBags(part, row, at)
			case j < narrow:
				scatter4(to, part.rowBits(p.scratch), p.size)
			default:
				scatter8(to, part.rowBits(p.scratch), p.size)
			}
			row += part.rows
		}
		if at += 4; j >= narrow {
			at += 4
		}
	}
	f.dropBad(&p, file)
}

// findFaults lists the first malformed field of each row.
func (p *parquetRecords) findFaults() {
	for j, parts := range p.c.parts {
		row := 0
		for i := range parts {
			for _, bad := range parts[i].listFaults() {
				if _, ok := p.bad[row+bad.row]; ok {
					continue
				}
				if p.bad == nil {
					p.bad = map[int]fault{}
				}
				p.bad[row+bad.row] = fault{field: j + 1, text: append([]byte(nil), bad.text...), what: bad.what}
			}
			row += parts[i].rows
		}
	}
}

// placeBags finds the places of the ids of each row. Malformed rows have none.
func (p *parquetRecords) placeBags() {
	p.begin, p.done = make([]uint32, p.c.rows+1), make([]uint32, p.c.rows)
	for _, parts := range p.c.parts {
		row := 0
		for i := range parts {
			for k, n := range parts[i].counts {
				if _, bad := p.bad[row+k]; !bad {
					p.begin[row+k+1] += uint32(n)
				}
			}
			row += parts[i].rows
		}
	}
	for row := range p.c.rows {
		p.begin[row+1] += p.begin[row]
		binary.LittleEndian.PutUint32(p.c.records[(row+1)*p.size-4:], p.begin[row])
	}
	p.c.heap = grown(p.c.heap, int(p.begin[p.c.rows])*p.entry)
}

// storeBags stores bags of a column: the ids in the heap, their place and number in the record, from byte at on.
func (p *parquetRecords) storeBags(part *parquetPart, row, at int) {
	heap := part.heap
	for k, n := range part.counts {
		row := row + k
		ids := heap[:int(n)*p.entry]
		heap = heap[len(ids):]
		if _, bad := p.bad[row]; bad {
			continue
		}
		binary.LittleEndian.PutUint64(p.c.records[row*p.size+at:], uint64(n)<<32|uint64(p.done[row]))
		copy(p.c.heap[int(p.begin[row]+p.done[row])*p.entry:], ids)
		p.done[row] += uint32(n)
	}
}

// scatter4 stores the low halves of values, one in each size bytes.
func scatter4(to []byte, values []uint64, size int) {
	for i, x := range values {
		binary.LittleEndian.PutUint32(to[i*size:], uint32(x))
	}
}

// scatter8 stores values, one in each size bytes.
func scatter8(to []byte, values []uint64, size int) {
	for i, x := range values {
		binary.LittleEndian.PutUint64(to[i*size:], x)
	}
}

// dropBad removes the records of malformed rows, and lists those.
func (f *parquetFormat) dropBad(p *parquetRecords, file string) {
	if len(p.bad) == 0 {
		return
	}
	names, good := f.columnNames(), p.c.records[:0]
	for row := range p.c.rows {
		bad, ok := p.bad[row]
		if !ok {
			good = append(good, p.c.records[row*p.size:(row+1)*p.size]...)
			continue
		}
		p.c.bad = append(p.c.bad, rowError(file, p.c.at.line+int64(row), names[bad.field-1], bad))
	}
	p.c.records = good
}
