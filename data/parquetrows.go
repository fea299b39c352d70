package data

import (
	"math"
	"slices"
	"strconv"
	"unsafe"
)

// Rows of Parquet files for predictions. The goroutines that read columns map each value, or each entry of a
// dictionary, to the bits of a sample. A RowParser only puts them together.

// noLabel is the bits of a label that is missing.
const noLabel = missingBits

// parquetRows is the way from the columns of Parquet files to samples.
type parquetRows struct {
	reader *parquetReader
	bags   *csvFormat // nil: a feature has one id
	ids    []idMap    // of bags
	dense  int
	kept   int
}

// newParquetRows returns the reader of the files. It opens the first one.
func newParquetRows(o *RowOptions) (*parquetRows, error) {
	if err := o.Recipe.validate(); err != nil {
		return nil, err
	}
	p := &parquetRows{bags: o.Recipe.bagFormat(), dense: len(o.Recipe.Dense), kept: len(o.Keep)}
	label := newParquetUse(o.Recipe.Label, &fieldForm{kind: columnLabel}, nil, nil)
	label.optional, label.fault, label.missing = true, "", noLabel
	uses := []*parquetUse{label}
	names := o.Recipe.columnNames()
	p.ids = newIDMaps(o.Recipe)
	for i := range o.Recipe.Dense {
		d := &o.Recipe.Dense[i]
		m := newNumberMap(d)
		uses = append(uses, newParquetUse(names[i], &fieldForm{kind: columnDense, na: o.Recipe.NA}, nil, func(to []uint32, bits []uint64) {
			for i, x := range bits {
				to[i] = math.Float32bits(m.mapNumber(math.Float32frombits(uint32(x))))
			}
		}))
	}
	for i := range o.Recipe.Categorical {
		c := &o.Recipe.Categorical[i]
		form := &fieldForm{kind: columnCategorical, na: o.Recipe.NA, derive: derivations[c.Transform]}
		name := names[len(o.Recipe.Dense)+i]
		if p.bags != nil && p.bags.bags[i] {
			form.kind = columnBag
			uses = append(uses, newParquetUse(name, form, nil, nil))
			uses[len(uses)-1].setBag(p.bags)
			continue
		}
		uses = append(uses, newParquetUse(name, form, nil, p.ids[i].mapHashes))
	}
	keep := appendText
	if o.KeepValues {
		keep = appendPlain
	}
	for _, name := range o.Keep {
		uses = append(uses, newKeptUse(name, keep))
	}
	p.reader = &parquetReader{env: o.Env, files: o.Files, uses: uses, chunkRows: 2048, next: place{line: 1}, threads: o.Threads}
	return p, p.reader.openNext()
}

// parquetParser makes samples of chunks of rows.
type parquetParser struct {
	rows  *parquetRows
	names []string // of the columns
	all   RowBatch // of the chunk
	next  int      // row of all
	bad   []*Error
}

// begin makes the samples of a chunk.
func (p *parquetParser) begin(c *RowChunk, schema *Schema) {
	n := c.chunk.rows
	p.next, p.bad = 0, nil
	rec := parquetRecords{c: &c.chunk}
	rec.findFaults()
	b := &p.all
	b.HasLabel, b.Kept = grown(b.HasLabel, n), grown(b.Kept, n*p.rows.kept)
	if p.rows.bags != nil {
		b.beginBags(n, schema)
	} else {
		b.resize(n, schema)
	}
	parts := c.chunk.parts
	p.storeLabels(parts[0].narrow)
	interleave(floatBits(b.Dense), p.rows.dense, parts[1:1+p.rows.dense])
	features := parts[1+p.rows.dense : len(parts)-p.rows.kept]
	if p.rows.bags != nil {
		p.storeBags(features, n)
	} else {
		interleave(b.IDs, len(features), features)
	}
	for k := range p.rows.kept {
		parts[len(parts)-p.rows.kept+k].eachKept(func(row int, value []byte) { b.Kept[row*p.rows.kept+k] = value })
	}
	if len(rec.bad) > 0 {
		p.dropRows(&rec, c, schema)
	}
}

// interleave sets to to the rows of columns. Eight columns are stored at a time: a line of the cache is fetched once for them.
func interleave(to []uint32, size int, parts []parquetPart) {
	first := 0
	for ; first+8 <= len(parts); first += 8 {
		interleave8(to[first:], size, (*[8]parquetPart)(parts[first:]))
	}
	for ; first < len(parts); first++ {
		for i, x := range parts[first].narrow {
			to[i*size+first] = x
		}
	}
}

// interleave8 is interleave for eight columns.
func interleave8(to []uint32, size int, parts *[8]parquetPart) {
	a := parts[0].narrow
	b, c, d := parts[1].narrow[:len(a)], parts[2].narrow[:len(a)], parts[3].narrow[:len(a)]
	e, f, g, h := parts[4].narrow[:len(a)], parts[5].narrow[:len(a)], parts[6].narrow[:len(a)], parts[7].narrow[:len(a)]
	for i := range a {
		row := (*[8]uint32)(to[i*size:])
		row[0], row[1], row[2], row[3] = a[i], b[i], c[i], d[i]
		row[4], row[5], row[6], row[7] = e[i], f[i], g[i], h[i]
	}
}

// floatBits is the memory of floats as their bits.
func floatBits(x []float32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// storeLabels stores the labels. There are none if no file has the column.
func (p *parquetParser) storeLabels(bits []uint32) {
	b := &p.all
	clear(b.HasLabel)
	clear(b.Labels)
	for row, x := range bits {
		if b.HasLabel[row] = x != noLabel; x != noLabel {
			b.Labels[row] = math.Float32frombits(x)
		}
	}
}

// storeBags stores the ids of n rows whose features may be bags.
func (p *parquetParser) storeBags(features []parquetPart, n int) {
	b, g := &p.all, p.rows.bags
	heaps := make([][]byte, len(features)) // the ids of the rows that follow
	for f := range features {
		heaps[f] = features[f].heap
	}
	for row := range n {
		for f := range features {
			if counts := features[f].counts; len(counts) > 0 {
				size := int(counts[row]) * g.entryBytes()
				p.rows.ids[f].appendBag(&b.Batch, heaps[f][:size], g.weighted)
				heaps[f] = heaps[f][size:]
			} else {
				b.IDs = append(b.IDs, features[f].narrow[row])
				if g.weighted {
					b.Weights = append(b.Weights, 1)
				}
			}
			b.Offsets = append(b.Offsets, int32(len(b.IDs)))
		}
	}
}

// dropRows leaves malformed rows out of the samples.
func (p *parquetParser) dropRows(rec *parquetRecords, c *RowChunk, schema *Schema) {
	b, to, features := &p.all, 0, schema.Features()
	ids := b.IDs[:0]
	weights, offsets := b.Weights[:0], b.Offsets[:0]
	if b.Offsets != nil {
		offsets = append(offsets, 0)
	}
	for row := range c.chunk.rows {
		if bad, ok := rec.bad[row]; ok {
			p.bad = append(p.bad, rowError(c.file, c.chunk.at.line+int64(row), p.names[bad.field-1], bad))
			continue
		}
		b.Labels[to], b.HasLabel[to] = b.Labels[row], b.HasLabel[row]
		copy(b.Dense[to*schema.Dense:][:schema.Dense], b.Dense[row*schema.Dense:])
		copy(b.Kept[to*p.rows.kept:][:p.rows.kept], b.Kept[row*p.rows.kept:])
		if b.Offsets == nil {
			ids = append(ids, b.IDs[row*features:][:features]...)
		} else {
			for f := range features {
				begin, end := b.Offsets[row*features+f], b.Offsets[row*features+f+1]
				ids = append(ids, b.IDs[begin:end]...)
				if len(b.Weights) > 0 {
					weights = append(weights, b.Weights[begin:end]...)
				}
				offsets = append(offsets, int32(len(ids)))
			}
		}
		to++
	}
	b.N, b.IDs = to, ids
	if b.Offsets != nil {
		b.Offsets, b.Weights = offsets, weights
	}
}

// parse is RowParser.Parse.
func (p *parquetParser) parse(b *RowBatch, most int, bad []*Error, schema *Schema) (bool, []*Error) {
	bad = append(bad, p.bad...)
	p.bad = nil
	first, last := p.next, min(p.next+most, p.all.N)
	p.next = last
	a, n, features := &p.all, last-first, schema.Features()
	b.N, b.SampleWeights = n, nil
	b.Labels, b.HasLabel = a.Labels[first:last], a.HasLabel[first:last]
	b.Dense, b.Kept = a.Dense[first*schema.Dense:last*schema.Dense], a.Kept[first*p.rows.kept:last*p.rows.kept]
	b.Offsets, b.Weights = nil, nil
	if a.Offsets == nil {
		b.IDs = a.IDs[first*features : last*features]
		return n > 0, bad
	}
	begin, end := a.Offsets[first*features], a.Offsets[last*features]
	b.IDs = a.IDs[begin:end]
	if len(a.Weights) > 0 {
		b.Weights = a.Weights[begin:end]
	}
	for _, at := range a.Offsets[first*features : last*features+1] {
		b.Offsets = append(b.Offsets, at-begin)
	}
	return n > 0, bad
}

// rowError is the error of a malformed row.
func rowError(file string, row int64, column string, bad fault) *Error {
	return &Error{File: file, What: "row " + strconv.FormatInt(row, 10) + ", column " + strconv.Quote(column) + ", " +
		strconv.Quote(string(bad.text[:min(len(bad.text), 40)])) + ": " + bad.what}
}

// columnNames lists the columns.
func (p *parquetRows) columnNames() (names []string) {
	for _, use := range p.reader.uses {
		names = append(names, use.name)
	}
	return slices.Clip(names)
}
