package data

import (
	"encoding/binary"
	"strconv"
)

// parquetRecords makes the records of a chunk, a column at a time.
type parquetRecords struct {
	c       *chunk
	size    int
	bad     map[int]fault // by row of the chunk
	scratch []uint64
}

// parseChunk makes the records of a chunk's rows.
func (f *parquetFormat) parseChunk(c *chunk, file string) {
	p := parquetRecords{c: c, size: f.recordBytes(), scratch: make([]uint64, c.rows)}
	c.records = grown(c.records, c.rows*p.size)
	at, narrow := 0, len(f.headNames())+len(f.dense)
	for j, parts := range c.parts {
		row := 0
		for i := range parts {
			part := &parts[i]
			bits, to := part.rowBits(p.scratch), c.records[row*p.size+at:]
			if j < narrow {
				scatter4(to, bits, p.size)
			} else {
				scatter8(to, bits, p.size)
			}
			part.eachFault(func(i int, text []byte, what string) { p.addFault(row+i, j, text, what) })
			row += part.rows
		}
		if at += 4; j >= narrow {
			at += 4
		}
	}
	f.dropBad(&p, file)
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

// addFault lists the first malformed field of a row.
func (p *parquetRecords) addFault(row, column int, text []byte, what string) {
	if _, ok := p.bad[row]; ok {
		return
	}
	if p.bad == nil {
		p.bad = map[int]fault{}
	}
	p.bad[row] = fault{field: column + 1, text: append([]byte(nil), text...), what: what}
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
		what := "row " + strconv.FormatInt(p.c.at.line+int64(row), 10) + ", column " + strconv.Quote(names[bad.field-1]) + ", " +
			strconv.Quote(string(bad.text[:min(len(bad.text), 40)])) + ": " + bad.what
		p.c.bad = append(p.c.bad, &Error{File: file, What: what})
	}
	p.c.records = good
}
