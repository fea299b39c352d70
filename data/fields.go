package data

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/internal/f32"
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
}

// derivation makes a category of a text that is not empty, in scratch. It returns the mistake in the
// text, if any.
type derivation func(text, scratch []byte) (category []byte, what string)

// Transforms of columns of categories. Each makes a text, which is the category.
const (
	TransformLog2Bucket = "log2-bucket" // of a number: floor(ln(x)^2) above 2, else the integer part
	TransformHour       = "hour"        // of a time: 0 to 23
	TransformWeekday    = "weekday"     // of a time: 0 (Monday) to 6
)

// derivations lists the transforms of categories.
var derivations = map[string]derivation{
	TransformLog2Bucket: deriveBucket,
	TransformHour:       deriveHour,
	TransformWeekday:    deriveWeekday,
}

// NumberTransforms lists the transforms of columns of numbers, the default first.
func NumberTransforms() []string {
	return []string{TransformLog1p, TransformNone, TransformStandard}
}

// CategoryTransforms lists the transforms of columns of categories.
func CategoryTransforms() []string {
	return []string{TransformLog2Bucket, TransformHour, TransformWeekday}
}

// storeField writes the value of a field to the record. It returns the mistake in the
// field, if any. texts may be nil.
func (f *fieldForm) storeField(text, rec []byte, texts *textSet) string {
	switch f.kind {
	case columnCategorical:
		return f.storeCategory(text, rec, texts)
	case columnDense:
		x, ok := parseDecimal(text)
		switch {
		case len(text) == 0 || f.isMissing(text) || ok && len(bytes.TrimSpace(text)) == 0:
			binary.LittleEndian.PutUint32(rec, missingBits)
			return ""
		case !ok:
			return `not a decimal number; if it means "missing", list it in data.csv.na`
		}
		binary.LittleEndian.PutUint32(rec, math.Float32bits(x))
	case columnLabel:
		x, ok := parseDecimal(text)
		if !ok || (x != 0 && x != 1) || len(text) == 0 {
			return "the label must be 0 or 1"
		}
		binary.LittleEndian.PutUint32(rec, math.Float32bits(x))
	case columnWeight:
		x, ok := parseDecimal(text)
		if !ok || x < 0 || len(bytes.TrimSpace(text)) == 0 {
			return "the weight must be a number, and not negative"
		}
		binary.LittleEndian.PutUint32(rec, math.Float32bits(x))
	}
	return ""
}

// storeCategory is storeField for a category, or an id of a bag.
func (f *fieldForm) storeCategory(text, rec []byte, texts *textSet) string {
	if f.isMissing(text) {
		text = nil
	}
	if f.derive != nil && len(text) > 0 {
		var what string
		if text, what = f.derive(text, f.scratch[:0]); what != "" {
			return what
		}
	}
	h := xxh3.Hash(text)
	binary.LittleEndian.PutUint64(rec, h)
	if texts != nil {
		texts.addText(f.texts, h, text)
	}
	return ""
}

// isMissing reports whether a text is one of data.csv.na.
func (f *fieldForm) isMissing(text []byte) bool {
	return len(f.na) > 0 && slices.Contains(f.na, string(text))
}

// deriveBucket makes the bucket of a number: floor(ln(x)^2) of numbers above 2, the integer part of others.
func deriveBucket(text, scratch []byte) ([]byte, string) {
	x, ok := parseDecimal(text)
	if !ok {
		return nil, "not a decimal number, and its transform is log2-bucket"
	}
	b := math.Trunc(float64(x))
	if x > 2 {
		l := f32.Log64(float64(x))
		b = math.Floor(l * l)
	}
	return strconv.AppendInt(scratch, int64(b), 10), ""
}

func deriveHour(text, scratch []byte) ([]byte, string) {
	t, ok := parseTime(string(text))
	if !ok {
		return nil, notTime
	}
	return strconv.AppendInt(scratch, int64(t.Hour()), 10), ""
}

func deriveWeekday(text, scratch []byte) ([]byte, string) {
	t, ok := parseTime(string(text))
	if !ok {
		return nil, notTime
	}
	return strconv.AppendInt(scratch, int64(t.Weekday()+6)%7, 10), ""
}

const notTime = "not a time: write 2026-01-31, 2026-01-31T12:00:00, seconds since 1970, or YYMMDDHH"

// timeLayouts are the ISO forms that are read, with "T" between date and time. A fraction of a second is read too.
var timeLayouts = []string{"2006-01-02", "2006-01-02T15:04:05", time.RFC3339, "2006-01-02T15:04", "2006-01-02T15"}

// parseTime reads a time: an ISO date, with or without a time of day, whose hour is taken as it is written;
// 8 digits YYMMDDHH, as in Avazu's data; or seconds since 1970, in UTC.
func parseTime(s string) (t time.Time, ok bool) {
	s = strings.TrimSpace(s)
	if digits := strings.TrimLeft(s, "0123456789"); digits == "" && s != "" {
		if len(s) == len("06010215") {
			t, err := time.Parse("06010215", s)
			return t, err == nil
		}
		sec, err := strconv.ParseInt(s, 10, 64)
		return time.Unix(sec, 0).UTC(), err == nil && sec < 1<<40
	}
	if len(s) > 10 && s[10] == ' ' {
		s = s[:10] + "T" + s[11:]
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return t, false
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
	// Integers of up to 15 digits are the common case, and exact.
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

// maxBag is the limit on the ids of one field.
const maxBag = 1 << 20

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
		id := text
		if i := bytes.IndexByte(text, f.separator); i >= 0 {
			id, text = text[:i], text[i+1:]
		} else {
			more = false
		}
		weight := float32(1)
		if i := bytes.LastIndexByte(id, ':'); f.weighted && i >= 0 {
			w, ok := parseDecimal(id[i+1:])
			if !ok || i+1 == len(id) {
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
	if n > maxBag {
		return bagTooLarge
	}
	le.PutUint64(rec, uint64(n)<<32|uint64(first))
	return ""
}
