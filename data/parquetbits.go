package data

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/zeebo/xxh3"
)

// parquetUse is the way from the values of a column to bits: those of a record, or of a sample if the
// values are mapped. Each value of a dictionary or of a plain page is converted once, by the goroutine that
// reads the column.
type parquetUse struct {
	parquetColumn
	form  *fieldForm // nil: values are kept as they are
	texts *textSet   // nil: texts are not kept
	remap func(bits []uint64)
	bag   *csvFormat // nil: a row has one value

	missing uint64 // the bits of a null
	fault   string // the mistake of a null, if it is one
}

// newParquetUse returns the use of a column. remap may be nil.
func newParquetUse(name string, form *fieldForm, texts *textSet, remap func(bits []uint64)) *parquetUse {
	u := &parquetUse{parquetColumn: parquetColumn{name: name}, form: form, texts: texts, remap: remap}
	one := make([]uint64, 1)
	u.fault = u.convertText(nil, &one[0], nil)
	if remap != nil {
		remap(one)
	}
	u.missing = one[0]
	return u
}

// setBag makes the values ids of bags.
func (u *parquetUse) setBag(f *csvFormat) { u.bag, u.list = f, true }

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

// convert sets v.converted, and v.bad for malformed values. It adds the texts to a set, unless that is nil.
func (u *parquetUse) convert(v *parquetValues, texts *textSet) {
	v.converted = make([]uint64, v.n)
	plain := len(u.form.na) == 0 && u.form.derive == nil && texts == nil
	switch {
	case plain && u.isCategory() && v.as == asBytes && v.kind == parquet.ByteArray:
		u.hashBytes(v)
	case plain && u.isCategory() && v.as == asInt:
		u.hashIntegers(v)
	case plain && u.form.kind == columnDense && (v.as == asInt || v.as == asFloat):
		u.convertNumbers(v)
	default:
		for i := range v.converted {
			u.convertValue(v, i, texts)
		}
	}
	if u.remap != nil {
		u.remap(v.converted)
	}
}

// convertValue converts value i by its text.
func (u *parquetUse) convertValue(v *parquetValues, i int, texts *textSet) {
	var scratch [64]byte
	if what := u.convertText(v.textOf(i, !u.isCategory(), scratch[:]), &v.converted[i], texts); what != "" {
		if v.bad == nil {
			v.bad = map[int]string{}
		}
		v.bad[i] = what
	}
}

// addTexts adds the texts of entries of a dictionary, each once.
func (u *parquetUse) addTexts(words *parquetValues, index []int32) {
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

func (u *parquetUse) hashBytes(v *parquetValues) {
	offsets := v.offsets[:v.n+1]
	for i := range v.converted {
		v.converted[i] = xxh3.Hash(v.bytes[offsets[i]:offsets[i+1]])
	}
}

func (u *parquetUse) hashIntegers(v *parquetValues) {
	var scratch [24]byte
	if v.kind == parquet.Int32 {
		for i, x := range v.i32[:v.n] {
			v.converted[i] = xxh3.Hash(strconv.AppendInt(scratch[:0], int64(x), 10))
		}
		return
	}
	for i, x := range v.i64[:v.n] {
		v.converted[i] = xxh3.Hash(strconv.AppendInt(scratch[:0], x, 10))
	}
}

// convertNumbers converts integers and floats without their texts.
func (u *parquetUse) convertNumbers(v *parquetValues) {
	switch v.kind {
	case parquet.Int32:
		for i, x := range v.i32[:v.n] {
			v.converted[i] = uint64(math.Float32bits(float32(x)))
		}
	case parquet.Int64:
		for i, x := range v.i64[:v.n] {
			v.converted[i] = uint64(math.Float32bits(float32(float64(x)))) // two roundings, as of a text
		}
	case parquet.Float:
		for i, x := range v.f32[:v.n] {
			if v.converted[i] = uint64(math.Float32bits(x)); x-x != 0 {
				u.convertValue(v, i, nil)
			}
		}
	case parquet.Double:
		for i, x := range v.f64[:v.n] {
			if v.converted[i] = uint64(math.Float32bits(float32(x))); !(math.Abs(x) <= math.MaxFloat32) {
				u.convertValue(v, i, nil)
			}
		}
	}
}
