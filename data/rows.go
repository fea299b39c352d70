package data

import (
	"bytes"
	"slices"

	"github.com/ecrec/ecrec/internal/env"
)

// Rows of text for predictions. Unlike the samples of a Source they are read once, in the order of
// the files, without a record file; their labels may be missing, and columns that the model does
// not read can be kept.

// Stdin is the name of the standard input among RowOptions.Files.
const Stdin = "-"

// RowOptions describe rows of text.
type RowOptions struct {
	Env    env.Env
	Files  []string // read as if they were one file
	Format string   // csv, criteo-tsv or parquet
	Recipe *Recipe
	Keep   []string // columns that a RowBatch keeps as they are
	// KeepValues keeps the values of Parquet columns in plain encoding, a boolean as a byte, in place of their texts.
	KeepValues bool
	// Threads is the number of goroutines that read the columns of Parquet files.
	Threads int
}

// Rows reads text in chunks, in the order of the files. It belongs to one goroutine; others may
// parse the chunks.
type Rows struct {
	o       RowOptions
	lines   lineReader
	format  lineFormat
	csv     *csvFormat   // nil: criteo-tsv, or Parquet
	parquet *parquetRows // nil: text
}

// RowChunk is some complete rows of one file, in memory that is reused.
type RowChunk struct {
	chunk chunk
	file  string
}

// HasRows reports whether a format is read by OpenRows. The others are read by Open.
func HasRows(format string) bool {
	return format == FormatCSV || format == FormatCriteoTSV || format == FormatParquet
}

// OpenRows prepares reading. Of files of text it opens none yet, of Parquet files the first.
func OpenRows(o RowOptions) (r *Rows, err error) {
	r = &Rows{o: o}
	switch {
	case o.Format == FormatParquet:
		r.parquet, err = newParquetRows(&o)
		return r, err
	case o.Format == FormatCSV:
		c := CSV{Label: o.Recipe.Label, Delimiter: ','}
		if o.Recipe.Delimiter != "" {
			c.Delimiter = o.Recipe.Delimiter[0]
		}
		r.csv = &csvFormat{label: c.Label, delimiter: c.Delimiter}
		r.format = rowHeader{r.csv, &r.o}
	case o.Format == FormatCriteoTSV && len(o.Keep) > 0:
		return nil, usageErr("--keep: columns of %s have no names; use csv", o.Format)
	case o.Format == FormatCriteoTSV:
		r.format = tsvParser{}
	default:
		return nil, usageErr("data.format = %q is not read row by row", o.Format)
	}
	r.lines = lineReader{env: o.Env, name: o.Format, files: o.Files, format: r.format, next: place{line: 1}}
	return r, nil
}

// Next reads the next rows into c. It reports false after the last ones.
func (r *Rows) Next(c *RowChunk) (ok bool, err error) {
	if r.parquet != nil {
		ok, err = r.parquet.reader.fillChunk(&c.chunk)
	} else {
		ok, err = r.lines.fillChunk(&c.chunk)
	}
	if ok {
		c.file = r.o.Files[c.chunk.at.file]
		if c.file == Stdin {
			c.file = "stdin"
		}
	}
	return ok, err
}

// Close closes the file that is open.
func (r *Rows) Close() {
	if r.parquet != nil {
		r.parquet.reader.closeFile()
		return
	}
	r.lines.closeFile()
}

// RowBatch is some rows as samples. It is valid until its chunk is reused.
type RowBatch struct {
	Batch
	// HasLabel holds, for each row, whether it has a label. The label of another row is 0.
	HasLabel []bool
	// Kept is (N, len(Keep)), row-major. Nil: a null of a Parquet file.
	Kept [][]byte
}

// RowParser makes samples of chunks. It belongs to one goroutine.
type RowParser struct {
	rows    *Rows
	encoder *Encoder
	codec   criteoCodec
	names   []string   // of the encoder's fields
	of      *columns   // for which the roles are
	roles   []role     // by column of the file
	uses    []fieldUse // of roles: the fields of the encoder
	keeps   []fieldUse // those kept
	label   int        // the column of the label, -1: there is none
	fields  [][]byte
	line    []byte
	record  [criteoBytes]byte
	parquet *parquetParser // nil: text

	chunk *RowChunk
	text  []byte // the rest of it
	at    int64  // its line
}

// fieldUse is a use of a column: as a field of the encoder, or of RowBatch.Kept.
type fieldUse struct{ column, field int }

// role is the use of a column of a file.
type role struct {
	fields []int // of the encoder
	keep   int   // of RowBatch.Kept, -1: none
	label  bool
}

// NewParser returns a parser of the rows.
func (r *Rows) NewParser() (p *RowParser, err error) {
	p = &RowParser{rows: r}
	if r.parquet != nil {
		p.parquet = &parquetParser{rows: r.parquet, names: r.parquet.columnNames()}
		return p, nil
	}
	if r.csv == nil {
		schema := r.o.Recipe.Schema()
		p.codec.mod = moduli(schema.FeatureRows())
		return p, nil
	}
	if p.encoder, err = r.o.Recipe.NewEncoder(); err != nil {
		return nil, err
	}
	p.names = p.encoder.Columns()
	p.fields = make([][]byte, len(p.names))
	return p, nil
}

// Begin begins with a chunk.
func (p *RowParser) Begin(c *RowChunk) {
	p.chunk, p.text, p.at = c, c.chunk.text, c.chunk.at.line
	if p.parquet != nil {
		schema := p.rows.o.Recipe.Schema()
		p.parquet.begin(c, &schema)
	} else if p.encoder != nil {
		c.chunk.index.begin(p.text, p.rows.csv.delimiter, len(c.chunk.columns.names))
	}
}

// Parse fills b with the next rows of the chunk, at most most. It reports whether there were any.
// Malformed rows are left out, and their errors appended to bad.
func (p *RowParser) Parse(b *RowBatch, most int, bad []*Error) (bool, []*Error) {
	schema := p.rows.o.Recipe.Schema()
	if p.parquet != nil {
		return p.parquet.parse(b, most, bad, &schema)
	}
	keep := len(p.rows.o.Keep)
	if p.encoder != nil {
		p.encoder.Resize(&b.Batch, most)
	} else {
		b.resize(most, &schema)
	}
	b.HasLabel, b.Kept = grown(b.HasLabel, most), grown(b.Kept, most*keep)
	n := 0
	for n < most && len(p.text) > 0 {
		var fault *Error
		var isRow bool
		if p.rows.csv == nil {
			isRow, fault = p.parseTSV(b, n)
		} else {
			isRow, fault = p.parseCSV(b, n)
		}
		switch {
		case fault != nil:
			bad = append(bad, fault)
		case isRow:
			n++
		}
	}
	b.N = n
	b.Labels, b.HasLabel, b.Kept = b.Labels[:n], b.HasLabel[:n], b.Kept[:n*keep]
	b.Dense = b.Dense[:n*schema.Dense]
	if b.Offsets == nil {
		b.IDs = b.IDs[:n*schema.Features()]
	}
	return n > 0 || len(p.text) > 0, bad
}

// parseTSV reads the next line as row i. A line without the label has a field less.
func (p *RowParser) parseTSV(b *RowBatch, i int) (isRow bool, bad *Error) {
	size := bytes.IndexByte(p.text, '\n') + 1
	if size == 0 {
		size = len(p.text)
	}
	text := p.text[:size]
	defer func() { p.text, p.at = p.text[size:], p.at+1 }()
	if len(trimEOL(text)) == 0 {
		return false, nil
	}
	labelled := bytes.Count(text, []byte{'\t'}) != criteoFields-2
	if !labelled {
		p.line = append(append(p.line[:0], "0\t"...), text...)
		text = p.line
	}
	if _, fault := parseTSVLine(text, &p.record); fault.what != "" {
		if fault.field > 0 && !labelled {
			fault.field--
		}
		return false, fault.inputError(p.chunk.file, p.at, "")
	}
	p.codec.decode(&b.Batch, i, p.record[:])
	b.HasLabel[i] = labelled
	return true, nil
}

// parseCSV reads the next record as row i.
func (p *RowParser) parseCSV(b *RowBatch, i int) (isRow bool, bad *Error) {
	at := len(p.chunk.chunk.text) - len(p.text)
	if n := emptyLine(p.text); n > 0 {
		p.text, p.at = p.text[n:], p.at+1
		return false, nil
	}
	c := p.chunk.chunk.columns
	if p.of != c {
		p.setRoles(c)
	}
	x, line := &p.chunk.chunk.index, p.at
	var fault fault
	if x.cutRecord(at) {
		fault = p.takeFields(x, b, i)
		p.text, p.at = p.text[x.end-at:], p.at+1+x.lines
	} else {
		s := fieldScanner{text: p.text, delimiter: p.rows.csv.delimiter}
		fault = p.scanFields(&s, b, i)
		p.text, p.at = p.text[s.at:], p.at+s.countLines()
	}
	if fault.what == "" {
		var label float32
		if b.HasLabel[i] {
			label = b.Labels[i]
		}
		if j, what := p.encoder.EncodeSample(&b.Batch, i, p.fields); what != "" {
			fault = fault.of(slices.IndexFunc(p.roles, func(r role) bool { return slices.Contains(r.fields, j) }), p.fields[j], what)
		}
		b.Labels[i] = label
	}
	if fault.what == "" {
		return true, nil
	}
	column := ""
	if fault.field > 0 && fault.field <= len(c.names) {
		column = c.names[fault.field-1]
	}
	return false, fault.inputError(p.chunk.file, line, column)
}

// takeFields takes the fields of a record that is cut: those of the encoder, those to keep, the label.
func (p *RowParser) takeFields(x *fieldIndex, b *RowBatch, i int) (first fault) {
	b.HasLabel[i] = false
	if x.fields != len(p.roles) {
		return countFault(x.fields, len(p.roles))
	}
	for _, use := range p.uses {
		p.fields[use.field] = x.field(use.column)
	}
	kept := b.Kept[i*len(p.rows.o.Keep):]
	for _, use := range p.keeps {
		kept[use.field] = x.field(use.column)
	}
	if p.label >= 0 {
		text := x.field(p.label)
		if what := takeLabel(b, i, text); what != "" {
			return first.of(p.label, text, what)
		}
	}
	return first
}

// takeLabel reads the label of row i, if there is one.
func takeLabel(b *RowBatch, i int, text []byte) (what string) {
	if isBlank(text) {
		return ""
	}
	x, ok := parseDecimal(text)
	b.Labels[i], b.HasLabel[i] = x, true
	if !ok || x != 0 && x != 1 {
		return "the label must be 0 or 1, or empty"
	}
	return ""
}

// scanFields is takeFields for a record with a doubled quote or a mistake in its quotes.
func (p *RowParser) scanFields(s *fieldScanner, b *RowBatch, i int) (first fault) {
	b.HasLabel[i] = false
	kept := b.Kept[i*len(p.rows.o.Keep):]
	fields := 0
	for ; s.more(); fields++ {
		text, what := s.next()
		if fields >= len(p.roles) {
			continue
		}
		r := &p.roles[fields]
		if len(text) > 0 && len(s.unquoted) > 0 && &text[0] == &s.unquoted[0] {
			text = slices.Clone(text) // the scanner reuses its memory
		}
		if r.label && what == "" {
			what = takeLabel(b, i, text)
		}
		for _, j := range r.fields {
			p.fields[j] = text
		}
		if r.keep >= 0 {
			kept[r.keep] = text
		}
		if what != "" && first.what == "" && (r.label || len(r.fields) > 0 || r.keep >= 0) {
			first = first.of(fields, text, what)
		}
	}
	if fields != len(p.roles) && first.what != noClosingQuote {
		return countFault(fields, len(p.roles))
	}
	return first
}

// setRoles finds the uses of a file's columns, which its header has been checked for.
func (p *RowParser) setRoles(c *columns) {
	p.of, p.roles, p.uses, p.keeps, p.label = c, p.roles[:0], p.uses[:0], p.keeps[:0], -1
	for i, name := range c.names {
		r := role{keep: slices.Index(p.rows.o.Keep, name), label: name == p.rows.csv.label}
		for j, field := range p.names {
			if field == name {
				r.fields = append(r.fields, j)
				p.uses = append(p.uses, fieldUse{i, j})
			}
		}
		if r.keep >= 0 {
			p.keeps = append(p.keeps, fieldUse{i, r.keep})
		}
		if r.label {
			p.label = i
		}
		p.roles = append(p.roles, r)
	}
}
