package data

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/parquet-go/parquet-go"
)

// parquetUse is the way from the values of a column to bits: those of a record, or of a sample if the
// values are mapped. Each value of a dictionary or of a plain page is converted once, by the goroutine that
// reads the column.
type parquetUse struct {
	parquetColumn
	form  *fieldForm                                       // nil: values are kept as they are
	keep  func(dst []byte, v *parquetValues, i int) []byte // appends a value that is kept
	texts *textSet                                         // nil: texts are not kept
	remap func(to []uint32, bits []uint64)                 // nil: bits are those of a record
	bag   *csvFormat                                       // nil: a row has one value

	missing uint64 // the bits of a null
	fault   string // the mistake of a null, if it is one
}

// newKeptUse returns the use of a column whose values are kept.
func newKeptUse(name string, keep func(dst []byte, v *parquetValues, i int) []byte) *parquetUse {
	return &parquetUse{parquetColumn: parquetColumn{name: name, kept: true}, keep: keep}
}

// newParquetUse returns the use of a column. remap may be nil.
func newParquetUse(name string, form *fieldForm, texts *textSet, remap func(to []uint32, bits []uint64)) *parquetUse {
	u := &parquetUse{parquetColumn: parquetColumn{name: name}, form: form, texts: texts, remap: remap}
	one := make([]uint64, 1)
	u.fault = u.convertText(nil, &one[0], nil)
	u.missing = one[0]
	if remap != nil {
		row := make([]uint32, 1)
		remap(row, one)
		u.missing = uint64(row[0])
	}
	return u
}

// setBag makes the values ids of bags.
func (u *parquetUse) setBag(f *csvFormat) { u.bag, u.list, u.weighted = f, true, f.weighted }

func (u *parquetUse) isCategory() bool {
	return u.form.kind == columnCategorical || u.form.kind == columnBag
}

// convertText converts a field as that of a CSV file. It returns the mistake in it, if any.
func (u *parquetUse) convertText(text []byte, bits *uint64, texts *textSet) (what string) {
	var rec [8]byte
	if u.isCategory() {
		what = u.form.storeCategory(text, rec[:], texts)
	} else {
		what = u.form.storeField(text, rec[:], nil)
	}
	*bits = binary.LittleEndian.Uint64(rec[:])
	return what
}

// isWide reports whether the bits of a value are 64, and not 32.
func (u *parquetUse) isWide() bool { return u.isCategory() && u.remap == nil }

// hashesTexts reports whether the bits of a value of v, as they are before narrowBits, are the hash of its bytes and nothing else.
func (u *parquetUse) hashesTexts(v *parquetValues) bool {
	return u.keep == nil && u.isCategory() && v.as == asBytes && u.texts == nil && len(u.form.na) == 0 && u.form.derive == nil
}

// narrowBits sets to to bits of 32 for those that convert found.
func (u *parquetUse) narrowBits(to []uint32, bits []uint64) {
	if u.remap != nil {
		u.remap(to, bits)
		return
	}
	to = to[:len(bits)]
	for i, x := range bits {
		to[i] = uint32(x)
	}
}

// convert sets bits to those of the values of v: of the next ones if v is a hashed sequence, else from first on. It adds malformed
// ones to v.bad, and the texts to a set, unless that is nil.
func (u *parquetUse) convert(v *parquetValues, first int, bits []uint64, texts *textSet) error {
	if v.hashed {
		return v.nextHashes(bits)
	}
	plain := len(u.form.na) == 0 && u.form.derive == nil && texts == nil
	switch {
	case plain && u.isCategory() && v.as == asBytes && v.kind == parquet.ByteArray:
		begin := v.offsets[first]
		for i, end := range v.offsets[first+1:][:len(bits)] {
			bits[i] = hashText(v.data[begin : end-v.gap])
			begin = end
		}
	case plain && u.isCategory() && v.as == asInt:
		var scratch [24]byte
		for i := range bits {
			bits[i] = hashText(strconv.AppendInt(scratch[:0], v.integer(first+i), 10))
		}
	case plain && u.form.kind == columnDense && (v.as == asInt || v.as == asFloat):
		u.convertNumbers(v, first, bits)
	default:
		for i := range bits {
			u.convertValue(v, first+i, &bits[i], texts)
		}
	}
	return nil
}

// convertValue converts value i by its text.
func (u *parquetUse) convertValue(v *parquetValues, i int, bits *uint64, texts *textSet) {
	var scratch [64]byte
	if what := u.convertText(v.textOf(i, !u.isCategory(), scratch[:]), bits, texts); what != "" {
		if v.bad == nil {
			v.bad = map[int]string{}
		}
		v.bad[i] = what
	}
}

// addTexts adds the texts of entries of a dictionary, each once.
func (u *parquetUse) addTexts(words *parquetValues, index []uint32) {
	if words.listed == nil {
		words.listed = make([]bool, words.n)
	}
	var scratch [64]byte
	var bits uint64
	for _, i := range index {
		if !words.listed[i] {
			words.listed[i] = true
			u.convertText(words.textOf(int(i), false, scratch[:]), &bits, u.texts)
		}
	}
}

// convertNumbers converts integers and floats without their texts.
func (u *parquetUse) convertNumbers(v *parquetValues, first int, bits []uint64) {
	switch v.kind {
	case parquet.Int32:
		for i := range bits {
			bits[i] = uint64(math.Float32bits(float32(int32(v.bits32(first + i)))))
		}
	case parquet.Int64:
		for i := range bits {
			bits[i] = uint64(math.Float32bits(float32(float64(int64(v.bits64(first + i)))))) // two roundings, as of a text
		}
	case parquet.Float:
		for i := range bits {
			bits[i] = uint64(v.bits32(first + i))
			if x := math.Float32frombits(uint32(bits[i])); x-x != 0 {
				u.convertValue(v, first+i, &bits[i], nil)
			}
		}
	case parquet.Double:
		for i := range bits {
			x := math.Float64frombits(v.bits64(first + i))
			if bits[i] = uint64(math.Float32bits(float32(x))); !(math.Abs(x) <= math.MaxFloat32) {
				u.convertValue(v, first+i, &bits[i], nil)
			}
		}
	}
}
