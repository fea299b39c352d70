package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

func (f *csvFormat) parseChunk(c *chunk, file string) {
	size := f.recordBytes()
	c.index.begin(c.text, f.delimiter, len(c.columns.form))
	line := c.at.line
	for at := 0; at < len(c.text); {
		if n := emptyLine(c.text[at:]); n > 0 {
			at += n // it is no sample
			line++
			continue
		}
		recordAt, heapAt := len(c.records), len(c.heap)
		c.records = slices.Grow(c.records, size)[:recordAt+size]
		if f.bags != nil {
			f.putHeapStart(c, recordAt)
		}
		end, lines, bad := f.parseRecord(c, at, c.records[recordAt:], heapAt)
		if bad.what != "" {
			c.records, c.heap = c.records[:recordAt], c.heap[:heapAt]
			column := ""
			if bad.field > 0 && bad.field <= len(c.columns.names) {
				column = c.columns.names[bad.field-1]
			}
			c.bad = append(c.bad, bad.inputError(file, line, column))
		}
		at, line = end, line+lines
	}
}

// parseRecord reads the record at byte at of the text into rec, its bags into the heap from byte heapAt on. It returns the
// end of the record, and its lines.
func (f *csvFormat) parseRecord(c *chunk, at int, rec []byte, heapAt int) (end int, lines int64, first fault) {
	x, forms := &c.index, c.columns.form
	if !x.cutRecord(at) {
		return f.scanRecord(c, at, rec, heapAt)
	}
	le := binary.LittleEndian
	for i, form := range forms[:min(x.fields, len(forms))] {
		if form == nil {
			continue
		}
		text, what := x.field(i), ""
		switch { // the common ones, without calls between
		case form.next != nil || form.kind == columnBag:
			what = f.storeUses(c, form, text, rec, heapAt)
		case form.kind == columnCategorical:
			var h uint64
			h, what = form.readCategory(text, c.texts)
			le.PutUint64(rec[form.at:], h)
		case form.kind == columnDense:
			var number float32
			number, what = form.readNumber(text)
			le.PutUint32(rec[form.at:], math.Float32bits(number))
		default:
			what = form.storeField(text, rec[form.at:], c.texts)
		}
		if what != "" && first.what == "" {
			first = first.of(i, text, what)
		}
	}
	if x.fields != len(forms) {
		first = countFault(x.fields, len(forms))
	}
	return x.end, 1 + x.lines, first
}

// scanRecord is parseRecord for a record with a doubled quote or a mistake in its quotes.
func (f *csvFormat) scanRecord(c *chunk, at int, rec []byte, heapAt int) (end int, lines int64, first fault) {
	s := fieldScanner{text: c.text[at:], delimiter: f.delimiter}
	forms, fields := c.columns.form, 0
	for ; s.more(); fields++ {
		text, what := s.next()
		if fields >= len(forms) {
			continue
		}
		if what == "" {
			what = f.storeUses(c, forms[fields], text, rec, heapAt)
		}
		if what != "" && first.what == "" {
			first = first.of(fields, text, what)
		}
	}
	if fields != len(forms) && first.what != noClosingQuote {
		first = countFault(fields, len(forms))
	}
	return at + s.at, s.countLines(), first
}

// storeUses stores a field in each of its uses. It returns the first mistake.
func (f *csvFormat) storeUses(c *chunk, form *fieldForm, text, rec []byte, heapAt int) (what string) {
	for ; form != nil && what == ""; form = form.next {
		if form.kind == columnBag {
			what = f.storeBag(c, form, text, rec[form.at:], heapAt)
		} else {
			what = form.storeField(text, rec[form.at:], c.texts)
		}
	}
	return what
}

// of returns the fault of the column with an index.
func (fault) of(column int, text []byte, what string) fault {
	return fault{field: column + 1, text: slices.Clone(text), what: what}
}

// countFault is the fault of a record with another number of fields than the header.
func countFault(fields, columns int) fault {
	return fault{what: fmt.Sprintf("%d fields, but the header has %d", fields, columns)}
}

// countLines is the number of lines of the record that was read.
func (s *fieldScanner) countLines() int64 {
	if !s.multiline {
		return 1
	}
	return 1 + int64(bytes.Count(s.text[:s.at-1], []byte{'\n'}))
}
