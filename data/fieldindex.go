package data

import (
	"encoding/binary"
	"math/bits"
)

// fieldIndex finds the fields of records without a look at each byte: a bit for each byte of the text tells where a field may
// end. Bits are found eight bytes at a time (Langdale and Lemire, "Parsing Gigabytes of JSON per Second", 2019).
type fieldIndex struct {
	text      []byte
	delimiter byte
	marks     []uint64 // a bit per byte: a delimiter, a line end or a quote

	// Of the last record.
	spans  []span // of its fields, of as many as the header has
	fields int    // the number of them, which may be another one
	end    int    // of the record, its line end included
	lines  int64  // line ends within quotes
}

// span is the place of a field in the text.
type span struct{ start, end int32 }

// begin begins with a text. Its records have a number of columns.
func (x *fieldIndex) begin(text []byte, delimiter byte, columns int) {
	x.text, x.delimiter = text, delimiter
	x.marks = markText(grown(x.marks, (len(text)+63)/64), text, delimiter)
	x.spans = grown(x.spans, columns)
}

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// markText sets the marks of a text, a bit per byte, and returns as many as it needs.
func markText(marks []uint64, text []byte, delimiter byte) []uint64 {
	whole := len(text) / 64
	markBytes(marks[:whole], text, delimiter)
	if n := len(text) % 64; n > 0 {
		var rest [64]byte
		copy(rest[:], text[64*whole:])
		markBytes(marks[whole:whole+1], rest[:], delimiter)
		marks[whole] &= 1<<n - 1
		whole++
	}
	return marks[:whole]
}

// markBytes sets the marks of 64 bytes of text each.
func markBytes(marks []uint64, text []byte, delimiter byte) {
	d := lowBits * uint64(delimiter)
	for i := range marks {
		block := text[64*i : 64*i+64]
		m := uint64(0)
		for j := 0; j < 64; j += 8 {
			w := binary.LittleEndian.Uint64(block[j : j+8])
			other := aboveZero(w^d) & aboveZero(w^lowBits*'\n') & aboveZero(w^lowBits*'"')
			// The product moves the highest bits of the bytes together.
			m |= (^other & highBits >> 7 * 0x0102040810204080) >> 56 << j
		}
		marks[i] = m
	}
}

// aboveZero sets the highest bit of each byte that is not zero.
func aboveZero(w uint64) uint64 { return w&^highBits + ^uint64(highBits) | w }

// field is a field of the last record.
func (x *fieldIndex) field(i int) []byte { return x.text[x.spans[i].start:x.spans[i].end] }

// cutRecord finds the fields of the record that begins at a byte. It reports false if one has a mistake or a doubled quote:
// a fieldScanner reads the record.
func (x *fieldIndex) cutRecord(at int) bool {
	text, spans, n, start, w := x.text, x.spans, 0, at, at/64
	x.lines = 0
	m := x.marks[w] >> (at % 64) << (at % 64)
	for {
		for m == 0 {
			if w++; w == len(x.marks) { // the text ends without a line end
				return x.endRecord(n, start, len(text), len(text))
			}
			m = x.marks[w]
		}
		p := w*64 + bits.TrailingZeros64(m)
		m &= m - 1
		ch, end := text[p], p
		if ch == '"' {
			if p > start {
				continue // a byte like others
			}
			start++
			if end, p = x.endQuoted(p); p < 0 {
				return false
			}
			if p == len(text) {
				return x.endRecord(n, start, end, p)
			}
			ch, w = text[p], p/64
			m = x.marks[w] &^ (2<<(p%64) - 1)
		} else if ch == '\n' && p > start && text[p-1] == '\r' {
			end--
		}
		if ch == '\n' {
			return x.endRecord(n, start, end, p+1)
		}
		if n < len(spans) {
			spans[n] = span{int32(start), int32(end)}
		}
		n++
		start = p + 1
	}
}

// endRecord ends the record at byte next, with its last field.
func (x *fieldIndex) endRecord(n, start, end, next int) bool {
	if n < len(x.spans) {
		x.spans[n] = span{int32(start), int32(end)}
	}
	x.fields, x.end = n+1, next
	return true
}

// endQuoted finds the closing quote of a field whose opening quote is at byte p, and the delimiter or line end that
// follows, or the end of the text. That is -1 if the field has a mistake or a doubled quote.
func (x *fieldIndex) endQuoted(p int) (closing, next int) {
	text, w := x.text, p/64
	m := x.marks[w] &^ (2<<(p%64) - 1)
	for {
		for m == 0 {
			if w++; w == len(x.marks) {
				return 0, -1
			}
			m = x.marks[w]
		}
		closing = w*64 + bits.TrailingZeros64(m)
		m &= m - 1
		if text[closing] == '"' {
			break
		}
		if text[closing] == '\n' {
			x.lines++
		}
	}
	next = closing + 1
	if next+1 < len(text) && text[next] == '\r' && text[next+1] == '\n' {
		next++
	}
	if next < len(text) && text[next] != x.delimiter && text[next] != '\n' {
		return 0, -1
	}
	return closing, next
}

// emptyLine is the size of the line at the beginning of text if that is empty, else 0.
func emptyLine(text []byte) int {
	switch {
	case text[0] == '\n':
		return 1
	case text[0] == '\r' && len(text) > 1 && text[1] == '\n':
		return 2
	}
	return 0
}
