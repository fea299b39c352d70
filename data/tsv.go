package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// criteoTSVFormat is the registry's entry.
var criteoTSVFormat = Format{
	Name:    FormatCriteoTSV,
	Doc:     "Criteo's text: label, 13 integers, 26 hexadecimal ids, separated by tabs",
	Endings: []string{".tsv", ".txt"},
	Columns: criteoColumns,
	text:    func(*Options) (textFormat, error) { return tsvParser{}, nil },
}

// tsvParser reads Criteo's text: label, 13 integers, 26 hexadecimal ids,
// separated by tabs; an empty field is 0. Its records are criteo-bin's.
type tsvParser struct{}

func (tsvParser) recordLayout() (kind recordKind, dense, categorical int) {
	return recordCriteo, criteoDense, criteoTables
}

func (tsvParser) settingsText() string  { return "" }
func (tsvParser) cutLines(b []byte) int { return bytes.LastIndexByte(b, '\n') + 1 }

func (tsvParser) parseChunk(c *chunk, file string) {
	text, line := c.text, c.at.line
	for ; len(text) > 0; line++ {
		at := len(c.records)
		if cap(c.records)-at < criteoBytes {
			c.records = append(c.records, make([]byte, criteoBytes)...)
		}
		rec := (*[criteoBytes]byte)(c.records[at : at+criteoBytes])
		used, fault := parseTSVLine(text, rec)
		switch {
		case fault.what == "":
			c.records = c.records[:at+criteoBytes]
		case fault.field == 0 && len(trimEOL(text[:used])) == 0:
			c.records = c.records[:at] // an empty line is no sample
		default:
			c.records = c.records[:at]
			c.bad = append(c.bad, fault.inputError(file, line, ""))
		}
		text = text[used:]
	}
}

// fault is a mistake in a line.
type fault struct {
	field int // from 1; 0: the line itself
	text  []byte
	what  string // "" is nothing
}

func (f *fault) inputError(file string, line int64, column string) *Error {
	what := f.what
	if f.field > 0 {
		shown := f.text
		if len(shown) > 40 {
			shown = shown[:40]
		}
		if column != "" {
			column = " (" + column + ")"
		}
		what = fmt.Sprintf("field %d%s %q: %s", f.field, column, shown, f.what)
	}
	return &Error{File: file, Line: line, What: what}
}

func trimEOL(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	return b
}

// lineEnd is the size of the first line of text, its end included.
func lineEnd(text []byte) int {
	for i, ch := range text {
		if ch == '\n' {
			return i + 1
		}
	}
	return len(text)
}

// hexDigit is the value of a digit, or 255.
var hexDigit = func() (t [256]uint8) {
	for i := range t {
		t[i] = 255
	}
	for i, ch := range "0123456789abcdef" {
		t[ch] = uint8(i)
	}
	for i, ch := range "ABCDEF" {
		t[ch] = uint8(10 + i)
	}
	return t
}()

// parseTSVLine reads the first line of text into rec and returns the line's size.
func parseTSVLine(text []byte, rec *[criteoBytes]byte) (int, fault) {
	p := 0
	field := 0
	for ; field < 1+criteoDense; field++ {
		start := p
		x, negative := uint64(0), false
		if p < len(text) && text[p] == '-' {
			negative = true
			p++
		}
		digits := p
		for p < len(text) {
			d := text[p] - '0'
			if d > 9 {
				break
			}
			x = x*10 + uint64(d)
			p++
		}
		if (p == digits && negative) || p-digits > 18 || p == len(text) || text[p] != '\t' {
			return tsvFault(text, start, field, "not an integer")
		}
		v := int64(x)
		if negative {
			v = -v
		}
		if v > math.MaxInt32 || v < math.MinInt32 {
			return tsvFault(text, start, field, "not an integer of 32 bits")
		}
		if field == 0 && (v>>1 != 0 || p == start) {
			return tsvFault(text, start, field, "the label must be 0 or 1")
		}
		binary.LittleEndian.PutUint32(rec[4*field:], uint32(v))
		p++
	}
	for ; field < criteoFields; field++ {
		start := p
		x := uint32(0)
		for p < len(text) {
			d := hexDigit[text[p]]
			if d == 255 {
				break
			}
			x = x<<4 | uint32(d)
			p++
		}
		if p-start > 8 {
			return tsvFault(text, start, field, "not a hexadecimal id of at most 8 digits")
		}
		binary.LittleEndian.PutUint32(rec[4*field:], x)
		if field < criteoFields-1 {
			if p == len(text) || text[p] != '\t' {
				return tsvFault(text, start, field, "not a hexadecimal id")
			}
			p++
			continue
		}
		if p < len(text) && text[p] == '\r' {
			p++
		}
		if p < len(text) && text[p] != '\n' {
			return tsvFault(text, start, field, "not a hexadecimal id")
		}
		if p < len(text) {
			p++
		}
	}
	return p, fault{}
}

// tsvFault finds the mistake in a line, away from the fast path: first
// its number of fields, then the field at start.
func tsvFault(text []byte, start, field int, what string) (int, fault) {
	size := lineEnd(text)
	line := trimEOL(text[:size])
	fields := 1
	for _, ch := range line {
		if ch == '\t' {
			fields++
		}
	}
	if fields != criteoFields {
		return size, fault{what: fmt.Sprintf("%d fields, not %d separated by tabs", fields, criteoFields)}
	}
	end := start
	for end < len(line) && line[end] != '\t' {
		end++
	}
	return size, fault{field: field + 1, text: line[start:end], what: what}
}
