package data

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
)

// columnKind is the kind of a column.
type columnKind uint8

const (
	columnIgnored columnKind = iota
	columnLabel
	columnWeight
	columnDense
	columnCategorical
	columnBag // of categories
)

// fieldForm is the way from the text of a column to its place in a record.
type fieldForm struct {
	kind    columnKind
	na      []string // texts that mean missing, beside the empty text
	derive  derivation
	texts   int // index of the column among the categories
	scratch []byte

	at   int        // csv: its place in the record
	next *fieldForm // csv: another use of the same column
}

// storeField writes the value of a field to the record. It returns the mistake in the
// field, if any. texts may be nil.
func (f *fieldForm) storeField(text, rec []byte, texts *textSet) string {
	switch f.kind {
	case columnCategorical:
		return f.storeCategory(text, rec, texts)
	case columnDense:
		x, what := f.readNumber(text)
		if what != "" {
			return what
		}
		binary.LittleEndian.PutUint32(rec, math.Float32bits(x))
	case columnLabel:
		x, ok := parseDecimal(text)
		if !ok || (x != 0 && x != 1) || isBlank(text) {
			return "the label must be 0 or 1"
		}
		binary.LittleEndian.PutUint32(rec, math.Float32bits(x))
	case columnWeight:
		x, ok := parseDecimal(text)
		if !ok || x < 0 || isBlank(text) {
			return "the weight must be a number, and not negative"
		}
		binary.LittleEndian.PutUint32(rec, math.Float32bits(x))
	}
	return ""
}

// isBlank reports whether a text is empty or of spaces alone, which parseDecimal takes for 0.
func isBlank(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 }

// readNumber returns a number: the NaN of missingBits if it is missing.
func (f *fieldForm) readNumber(text []byte) (x float32, what string) {
	if n, ok := parseDigits(text); ok && len(text) > 0 && len(f.na) == 0 {
		return float32(n), ""
	}
	x, ok := parseDecimal(text)
	switch {
	case len(text) == 0 || f.isMissing(text) || ok && text[0] == ' ' && isBlank(text):
		return math.Float32frombits(missingBits), ""
	case !ok:
		return 0, `not a decimal number; if it means "missing", list it in data.csv.na`
	}
	return x, ""
}

// storeCategory is storeField for a category, or an id of a bag.
func (f *fieldForm) storeCategory(text, rec []byte, texts *textSet) string {
	h, what := f.readCategory(text, texts)
	if what == "" {
		binary.LittleEndian.PutUint64(rec, h)
	}
	return what
}

// readCategory returns the hash of a category.
func (f *fieldForm) readCategory(text []byte, texts *textSet) (h uint64, what string) {
	if f.isMissing(text) {
		text = nil
	}
	if f.derive != nil && len(text) > 0 {
		if text, what = f.derive(text, f.scratch[:0]); what != "" {
			return 0, what
		}
	}
	h = hashText(text)
	if texts != nil {
		texts.addText(f.texts, h, text)
	}
	return h, ""
}

// isMissing reports whether a text is one of data.csv.na.
func (f *fieldForm) isMissing(text []byte) bool {
	return len(f.na) > 0 && slices.Contains(f.na, string(text))
}

const bagTooLarge = "it has more than 1,048,576 ids"

// bagLayout implements bagged.
func (f *csvFormat) bagLayout() (mask []bool, weighted bool) { return f.bags, f.weighted }

// entryBytes is the size of an id in the heap.
func (f *csvFormat) entryBytes() int { return entryBytes(f.weighted) }

// putHeapStart stores where the ids of the record at byte at begin in the heap.
func (f *csvFormat) putHeapStart(c *chunk, at int) {
	size := f.recordBytes()
	binary.LittleEndian.PutUint32(c.records[at+size-4:], uint32(len(c.heap)/f.entryBytes()))
}

// storeBag appends the ids of a field to the heap, and stores their place and number in rec. The
// ids of the record begin at byte heapAt. An empty or missing field is an empty bag.
func (f *csvFormat) storeBag(c *chunk, form *fieldForm, text, rec []byte, heapAt int) string {
	le := binary.LittleEndian
	first, n := (len(c.heap)-heapAt)/f.entryBytes(), 0
	for more := len(text) > 0 && !form.isMissing(text); more; n++ {
		if n == maxBag {
			return bagTooLarge
		}
		id := text
		if i := bytes.IndexByte(text, f.separator); i >= 0 {
			id, text = text[:i], text[i+1:]
		} else {
			more = false
		}
		weight := float32(1)
		if i := bytes.LastIndexByte(id, ':'); f.weighted && i >= 0 {
			w, ok := parseDecimal(id[i+1:])
			if !ok || isBlank(id[i+1:]) {
				return "the weight after the colon is not a decimal number"
			}
			id, weight = id[:i], w
		}
		c.heap = le.AppendUint64(c.heap, 0)
		if what := form.storeCategory(id, c.heap[len(c.heap)-8:], c.texts); what != "" {
			return what
		}
		if f.weighted {
			c.heap = le.AppendUint32(c.heap, math.Float32bits(weight))
		}
	}
	le.PutUint64(rec, uint64(n)<<32|uint64(first))
	return ""
}
