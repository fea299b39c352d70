package data

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/zeebo/xxh3"
)

// csvFormat reads comma-separated text with a header, as RFC 4180 describes it:
// a field may be quoted, and a quote in it is doubled. Its records are
// label float32, dense [Dense]float32, ids [Categorical]uint64, little-endian.
type csvFormat struct {
	label     string
	dense     []string
	cats      []string
	delimiter byte
}

// columns is where the columns of one file go: for each the offset in the record
// and the kind.
type columns struct {
	names []string
	kind  []columnKind
	at    []int
}

type columnKind uint8

const (
	columnIgnored columnKind = iota
	columnLabel
	columnDense
	columnCategorical
)

func newCSV(c CSV) (*csvFormat, error) {
	f := &csvFormat{label: c.Label, dense: c.Dense, cats: c.Categorical, delimiter: c.Delimiter}
	if f.delimiter == 0 {
		f.delimiter = ','
	}
	if f.delimiter == '"' || f.delimiter == '\n' || f.delimiter == '\r' {
		return nil, usageErr("data.csv.delimiter = %q cannot separate fields", f.delimiter)
	}
	if f.label == "" {
		return nil, usageErr("data.csv.label names no column")
	}
	seen := map[string]bool{}
	for _, name := range slices.Concat([]string{f.label}, f.dense, f.cats) {
		if seen[name] {
			return nil, usageErr("data.csv names column %q twice", name)
		}
		seen[name] = true
	}
	return f, nil
}

func (f *csvFormat) recordBytes() int { return 4 + 4*len(f.dense) + 8*len(f.cats) }

// headerEnd finds the size of the header and the lines it takes.
func (f *csvFormat) headerEnd(file string, text []byte) (size int, lines int64, err error) {
	size = f.recordEnd(text)
	if size == 0 || size == len(text) && text[size-1] != '\n' {
		return 0, 0, fileErr(file, "no samples follow the header, or its first line is longer than %d bytes", maxLineBytes)
	}
	return size, int64(bytes.Count(text[:size], []byte{'\n'})), nil
}

// readHeader maps a file's columns to the record.
func (f *csvFormat) readHeader(file string, line []byte) (*columns, error) {
	line = trimEOL(line)
	line = []byte(strings.TrimPrefix(string(line), "\uFEFF"))
	c := new(columns)
	s := fieldScanner{text: line, delimiter: f.delimiter}
	for s.more() {
		name, what := s.next()
		if what != "" {
			return nil, &Error{File: file, Line: 1, What: fmt.Sprintf("column %d of the header: %s", len(c.names)+1, what)}
		}
		c.names = append(c.names, string(name))
	}
	c.kind = make([]columnKind, len(c.names))
	c.at = make([]int, len(c.names))
	var missing []string
	want := func(name string, kind columnKind, at int) error {
		i := slices.Index(c.names, name)
		if i < 0 {
			missing = append(missing, strconv.Quote(name))
			return nil
		}
		if slices.Contains(c.names[i+1:], name) {
			return &Error{File: file, Line: 1, What: fmt.Sprintf("two columns are called %q", name)}
		}
		c.kind[i], c.at[i] = kind, at
		return nil
	}
	err := want(f.label, columnLabel, 0)
	for j, name := range f.dense {
		if err == nil {
			err = want(name, columnDense, 4+4*j)
		}
	}
	for j, name := range f.cats {
		if err == nil {
			err = want(name, columnCategorical, 4+4*len(f.dense)+8*j)
		}
	}
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, &Error{File: file, Line: 1, What: fmt.Sprintf("no column is called %s; there are %s",
			strings.Join(missing, ", "), strings.Join(c.names, ", "))}
	}
	return c, nil
}

// wholeRecords is how many bytes of text are whole records.
func (f *csvFormat) wholeRecords(text []byte) int {
	cut := 0
	for cut < len(text) {
		n := f.recordEnd(text[cut:])
		if text[cut+n-1] != '\n' {
			break
		}
		if cut+n == len(text) && f.open(text[cut:]) {
			break
		}
		cut += n
	}
	return cut
}

// recordEnd is the size of the first record of text, its line end included, or
// all of text when it does not end there.
func (f *csvFormat) recordEnd(text []byte) int {
	s := fieldScanner{text: text, delimiter: f.delimiter}
	for s.more() {
		s.next()
	}
	return s.at
}

// open reports whether text ends within a quoted field.
func (f *csvFormat) open(text []byte) bool {
	s := fieldScanner{text: text, delimiter: f.delimiter}
	for s.more() {
		if _, what := s.next(); what == noClosingQuote {
			return true
		}
	}
	return false
}

const noClosingQuote = "the quote is not closed"

// fieldScanner walks the fields of the first record of text.
type fieldScanner struct {
	text      []byte
	at        int
	delimiter byte
	done      bool
	multiline bool   // a field was quoted, so the record may span lines
	unquoted  []byte // memory for fields with doubled quotes
}

// more reports whether the record has another field.
func (s *fieldScanner) more() bool { return !s.done }

// next returns the next field and what is wrong with it. At the record's end the
// scanner stands behind the line's end.
func (s *fieldScanner) next() (field []byte, what string) {
	text, p := s.text, s.at
	if p < len(text) && text[p] == '"' {
		s.multiline = true
		field, p, what = s.quoted(p + 1)
	} else {
		start := p
		for p < len(text) && text[p] != s.delimiter && text[p] != '\n' {
			p++
		}
		field = text[start:p]
	}
	switch {
	case p == len(text):
		s.done = true
	case text[p] == '\n':
		s.done = true
		if n := len(field); n > 0 && field[n-1] == '\r' && text[p-1] == '\r' {
			field = field[:n-1]
		}
		p++
	default:
		p++
	}
	s.at = p
	return field, what
}

// quoted reads a quoted field from behind its opening quote on, up to the
// delimiter or line end.
func (s *fieldScanner) quoted(p int) (field []byte, end int, what string) {
	text, start := s.text, p
	doubled := false
	for {
		for p < len(text) && text[p] != '"' {
			p++
		}
		if p == len(text) {
			return text[start:], p, noClosingQuote
		}
		if p+1 < len(text) && text[p+1] == '"' {
			doubled = true
			p += 2
			continue
		}
		break
	}
	field = text[start:p]
	if doubled {
		s.unquoted = s.unquoted[:0]
		for i := 0; i < len(field); i++ {
			s.unquoted = append(s.unquoted, field[i])
			if field[i] == '"' {
				i++
			}
		}
		field = s.unquoted
	}
	p++
	if p+1 < len(text) && text[p] == '\r' && text[p+1] == '\n' {
		return field, p + 1, ""
	}
	for p < len(text) && text[p] != s.delimiter && text[p] != '\n' {
		what = "text follows the closing quote"
		p++
	}
	return field, p, what
}

func (f *csvFormat) parse(c *chunk, file string) {
	size := f.recordBytes()
	s := fieldScanner{delimiter: f.delimiter}
	text, line := c.text, c.at.line
	for len(text) > 0 {
		if n := lineEnd(text[:min(2, len(text))]); len(trimEOL(text[:n])) == 0 && text[n-1] == '\n' {
			text = text[n:] // an empty line says nothing
			line++
			continue
		}
		at := len(c.records)
		c.records = slices.Grow(c.records, size)[:at+size]
		s.text, s.at, s.done, s.multiline = text, 0, false, false
		if bad := f.parseRecord(&s, c.columns, c.records[at:]); bad.what != "" {
			c.records = c.records[:at]
			column := ""
			if bad.field > 0 && bad.field <= len(c.columns.names) {
				column = c.columns.names[bad.field-1]
			}
			c.bad = append(c.bad, bad.error(file, line, column))
		}
		line++
		if s.multiline {
			line += int64(bytes.Count(text[:s.at-1], []byte{'\n'}))
		}
		text = text[s.at:]
	}
}

// parseRecord reads one record into rec and leaves the scanner behind it.
func (f *csvFormat) parseRecord(s *fieldScanner, c *columns, rec []byte) (first fault) {
	fields := 0
	for ; s.more(); fields++ {
		text, what := s.next()
		if fields >= len(c.kind) {
			continue
		}
		if what == "" {
			what = storeField(c.kind[fields], text, rec[c.at[fields]:])
		}
		if what != "" && first.what == "" {
			first = fault{field: fields + 1, text: slices.Clone(text), what: what}
		}
	}
	if fields != len(c.kind) && first.what != noClosingQuote {
		return fault{what: fmt.Sprintf("%d fields, but the header has %d", fields, len(c.kind))}
	}
	return first
}

// storeField writes a field's value to the record and says what is wrong with it.
func storeField(kind columnKind, text, rec []byte) string {
	switch kind {
	case columnCategorical:
		binary.LittleEndian.PutUint64(rec, xxh3.Hash(text))
	case columnDense:
		x, ok := parseDecimal(text)
		if !ok {
			return "not a decimal number"
		}
		binary.LittleEndian.PutUint32(rec, math.Float32bits(x))
	case columnLabel:
		x, ok := parseDecimal(text)
		if !ok || (x != 0 && x != 1) || len(text) == 0 {
			return "the label must be 0 or 1"
		}
		binary.LittleEndian.PutUint32(rec, math.Float32bits(x))
	}
	return ""
}

// parseDecimal is the float32 next to the float64 next to a decimal number, with
// spaces around it allowed; an empty field is 0.
func parseDecimal(b []byte) (float32, bool) {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	for len(b) > 0 && b[len(b)-1] == ' ' {
		b = b[:len(b)-1]
	}
	// Integers of up to 15 digits are most of what there is, and exact.
	x, i := int64(0), 0
	if len(b) > 0 && b[0] == '-' {
		i = 1
	}
	digits := i
	for i < len(b) && i-digits < 15 && b[i]-'0' <= 9 {
		x = x*10 + int64(b[i]-'0')
		i++
	}
	if i == len(b) && (i > digits || len(b) == 0) {
		if digits == 1 {
			x = -x
		}
		return float32(x), true
	}
	for _, ch := range b {
		if (ch < '0' || ch > '9') && ch != '.' && ch != '-' && ch != '+' && ch != 'e' && ch != 'E' {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(b), len(b)), 64)
	if err != nil || math.Abs(f) > math.MaxFloat32 {
		return 0, false
	}
	return float32(f), true
}
