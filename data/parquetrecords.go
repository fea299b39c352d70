package data

import (
	"encoding/binary"
)

// parquetRecords makes the records of a chunk, a column at a time.
type parquetRecords struct {
	c    *chunk
	size int
	bad  map[int]fault // by row of the chunk

	// Of bags, for each row: the place of its ids in the heap, and the number of those that are there already.
	entry       int
	begin, done []uint32
}

// parseChunk makes the records of a chunk's rows.
func (f *parquetFormat) parseChunk(c *chunk, file string) {
	p := parquetRecords{c: c, size: f.recordBytes()}
	c.records = grown(c.records, c.rows*p.size)
	p.findFaults()
	if f.bags != nil {
		p.entry = f.entryBytes()
		p.placeBags()
	}
	p.storeColumns()
	f.dropBad(&p, file)
}

// storeColumns stores the columns in the records.
func (p *parquetRecords) storeColumns() {
	at, parts := 0, p.c.parts
	for len(parts) > 0 {
		switch part := &parts[0]; {
		case len(part.counts) > 0:
			p.storeBags(part, at)
			at, parts = at+8, parts[1:]
		case len(part.wide) > 0:
			n := countWhile(parts, func(p *parquetPart) bool { return len(p.wide) > 0 })
			store8(p.c.records[at:], p.size, parts[:n])
			at, parts = at+8*n, parts[n:]
		default:
			n := max(1, countWhile(parts, func(p *parquetPart) bool { return len(p.narrow) > 0 }))
			store4(p.c.records[at:], p.size, parts[:n])
			at, parts = at+4*n, parts[n:]
		}
	}
}

func countWhile(parts []parquetPart, is func(*parquetPart) bool) int {
	for i := range parts {
		if !is(&parts[i]) {
			return i
		}
	}
	return len(parts)
}

// findFaults lists the first malformed field of each row.
func (p *parquetRecords) findFaults() {
	for j := range p.c.parts {
		for _, bad := range p.c.parts[j].faults {
			if _, ok := p.bad[bad.row]; ok {
				continue
			}
			if p.bad == nil {
				p.bad = map[int]fault{}
			}
			p.bad[bad.row] = fault{field: j + 1, text: bad.text, what: bad.what}
		}
	}
}

// placeBags finds the places of the ids of each row. Malformed rows have none.
func (p *parquetRecords) placeBags() {
	p.begin, p.done = make([]uint32, p.c.rows+1), make([]uint32, p.c.rows)
	for i := range p.c.parts {
		for row, n := range p.c.parts[i].counts {
			if _, bad := p.bad[row]; !bad {
				p.begin[row+1] += uint32(n)
			}
		}
	}
	for row := range p.c.rows {
		p.begin[row+1] += p.begin[row]
		binary.LittleEndian.PutUint32(p.c.records[(row+1)*p.size-4:], p.begin[row])
	}
	p.c.heap = grown(p.c.heap, int(p.begin[p.c.rows])*p.entry)
}

// storeBags stores bags of a column: the ids in the heap, their place and number in the record, from byte at on.
func (p *parquetRecords) storeBags(part *parquetPart, at int) {
	heap := part.heap
	for row, n := range part.counts {
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

// store4 stores columns of 4 bytes next to each other, a row in each size bytes. Four columns are stored at a time:
// a line of the cache is fetched once for them.
func store4(to []byte, size int, parts []parquetPart) {
	le := binary.LittleEndian
	for ; len(parts) >= 4; parts = parts[4:] {
		a := parts[0].narrow
		b, c, d := parts[1].narrow[:len(a)], parts[2].narrow[:len(a)], parts[3].narrow[:len(a)]
		for i := range a {
			row := to[i*size:][:16]
			le.PutUint32(row, a[i])
			le.PutUint32(row[4:], b[i])
			le.PutUint32(row[8:], c[i])
			le.PutUint32(row[12:], d[i])
		}
		if to = to[min(16, len(to)):]; len(to) == 0 {
			return
		}
	}
	for j := range parts {
		for i, x := range parts[j].narrow {
			le.PutUint32(to[i*size+4*j:], x)
		}
	}
}

// store8 is store4 of columns of 8 bytes.
func store8(to []byte, size int, parts []parquetPart) {
	le := binary.LittleEndian
	for ; len(parts) >= 4; parts = parts[4:] {
		a := parts[0].wide
		b, c, d := parts[1].wide[:len(a)], parts[2].wide[:len(a)], parts[3].wide[:len(a)]
		for i := range a {
			row := to[i*size:][:32]
			le.PutUint64(row, a[i])
			le.PutUint64(row[8:], b[i])
			le.PutUint64(row[16:], c[i])
			le.PutUint64(row[24:], d[i])
		}
		if to = to[min(32, len(to)):]; len(to) == 0 {
			return
		}
	}
	for j := range parts {
		for i, x := range parts[j].wide {
			le.PutUint64(to[i*size+8*j:], x)
		}
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
