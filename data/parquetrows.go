package data

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
)

// Rows of Parquet files for predictions. The goroutines that read columns map each value, or each entry of a
// dictionary, to the bits of a sample. A RowParser only puts them together.

// noLabel is the bits of a label that is missing.
const noLabel = 1 << 32

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
		uses = append(uses, newParquetUse(names[i], &fieldForm{kind: columnDense, na: o.Recipe.NA}, nil, func(bits []uint64) {
			for i, x := range bits {
				bits[i] = uint64(math.Float32bits(m.mapNumber(math.Float32frombits(uint32(x)))))
			}
		}))
	}
	for i := range o.Recipe.Categorical {
		c := &o.Recipe.Categorical[i]
		form := &fieldForm{kind: columnCategorical, na: o.Recipe.NA, derive: derivations[c.Transform]}
		m, name := &p.ids[i], names[len(o.Recipe.Dense)+i]
		if p.bags != nil && p.bags.bags[i] {
			form.kind = columnBag
			uses = append(uses, newParquetUse(name, form, nil, nil))
			uses[len(uses)-1].setBag(p.bags)
			continue
		}
		uses = append(uses, newParquetUse(name, form, nil, func(bits []uint64) {
			for i, h := range bits {
				bits[i] = uint64(m.mapHash(h))
			}
		}))
	}
	for _, name := range o.Keep {
		uses = append(uses, &parquetUse{parquetColumn: parquetColumn{name: name, kept: true}})
	}
	p.reader = &parquetReader{env: o.Env, files: o.Files, uses: uses, chunkRows: 2048, next: place{line: 1}, threads: o.Threads}
	return p, p.reader.openNext()
}

// parquetParser makes samples of chunks of rows.
type parquetParser struct {
	rows    *parquetRows
	names   []string // of the columns
	all     RowBatch // of the chunk
	text    bool     // kept values are texts
	next    int      // row of all
	bad     []*Error
	scratch []uint64
	arena   []byte // of kept values
}

// begin makes the samples of a chunk.
func (p *parquetParser) begin(c *RowChunk, schema *Schema) {
	n := c.chunk.rows
	p.next, p.bad, p.arena = 0, nil, p.arena[:0]
	p.scratch = grown(p.scratch, n)
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
	p.storeLabels(parts[0])
	for j := range p.rows.dense {
		eachBits(parts[1+j], p.scratch, func(row int, bits []uint64) {
			for i, x := range bits {
				b.Dense[(row+i)*p.rows.dense+j] = math.Float32frombits(uint32(x))
			}
		})
	}
	features := parts[1+p.rows.dense : len(parts)-p.rows.kept]
	if p.rows.bags != nil {
		p.storeBags(features, n)
	} else {
		for f := range features {
			eachBits(features[f], p.scratch, func(row int, bits []uint64) {
				for i, x := range bits {
					b.IDs[(row+i)*len(features)+f] = uint32(x)
				}
			})
		}
	}
	for k := range p.rows.kept {
		p.keepColumn(parts[len(parts)-p.rows.kept+k], k)
	}
	if len(rec.bad) > 0 {
		p.dropRows(&rec, c, schema)
	}
}

// eachBits calls do with the bits of the rows of each part.
func eachBits(parts []parquetPart, scratch []uint64, do func(row int, bits []uint64)) {
	row := 0
	for i := range parts {
		do(row, parts[i].rowBits(scratch))
		row += parts[i].rows
	}
}

func (p *parquetParser) storeLabels(parts []parquetPart) {
	b := &p.all
	clear(b.HasLabel)
	clear(b.Labels)
	eachBits(parts, p.scratch, func(row int, bits []uint64) {
		for i, x := range bits {
			if b.HasLabel[row+i] = x != noLabel; x != noLabel {
				b.Labels[row+i] = math.Float32frombits(uint32(x))
			}
		}
	})
}

// storeBags stores the ids of n rows whose features may be bags.
func (p *parquetParser) storeBags(features [][]parquetPart, n int) {
	b, g := &p.all, p.rows.bags
	cells := make([]bagCells, len(features))
	for f := range features {
		cells[f] = newBagCells(features[f], n, g.entryBytes())
	}
	for row := range n {
		for f := range cells {
			c := &cells[f]
			if c.bits != nil {
				b.IDs = append(b.IDs, uint32(c.bits[row]))
				if g.weighted {
					b.Weights = append(b.Weights, 1)
				}
			} else {
				p.rows.ids[f].appendBag(&b.Batch, c.heap[c.ends[row]:c.ends[row+1]], g.weighted)
			}
			b.Offsets = append(b.Offsets, int32(len(b.IDs)))
		}
	}
}

// bagCells is a column of some rows: one id each, or bags.
type bagCells struct {
	bits []uint64 // nil: bags
	heap []byte
	ends []int // of each row in heap, from index 1 on
}

func newBagCells(parts []parquetPart, n, entry int) (c bagCells) {
	c.ends = make([]int, 1, n+1)
	for i := range parts {
		if parts[i].counts == nil {
			c.bits = append(c.bits, parts[i].rowBits(make([]uint64, parts[i].rows))...)
			continue
		}
		for _, k := range parts[i].counts {
			c.ends = append(c.ends, c.ends[len(c.ends)-1]+int(k)*entry)
		}
		c.heap = append(c.heap, parts[i].heap...)
	}
	return c
}

// keepColumn keeps the values of a column.
func (p *parquetParser) keepColumn(parts []parquetPart, k int) {
	row := 0
	for i := range parts {
		in := parts[i].in
		parts[i].eachValue(func(at int) {
			cell := &p.all.Kept[row*p.rows.kept+k]
			row++
			if *cell = nil; at < 0 {
				return
			}
			begin := len(p.arena)
			if p.text {
				p.arena = append(p.arena, in.textOf(at, false, nil)...)
			} else {
				p.arena = in.appendPlain(p.arena, at)
			}
			*cell = p.arena[begin:len(p.arena):len(p.arena)]
		})
	}
}

// appendPlain appends value i as Parquet's plain encoding has it, without the length of byte arrays; a boolean is a byte.
func (v *parquetValues) appendPlain(dst []byte, i int) []byte {
	switch v.kind {
	case parquet.Boolean:
		return append(dst, v.bits[i/8]>>(i%8)&1)
	case parquet.Int32:
		return binary.LittleEndian.AppendUint32(dst, uint32(v.i32[i]))
	case parquet.Int64:
		return binary.LittleEndian.AppendUint64(dst, uint64(v.i64[i]))
	case parquet.Float:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(v.f32[i]))
	case parquet.Double:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.f64[i]))
	}
	return append(dst, v.blob(i)...)
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
