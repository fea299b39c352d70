package data

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// parquetType is the way from the values of a column to their text.
type parquetType struct {
	as    parquetAs
	scale int           // of decimals
	unit  time.Duration // of times
}

type parquetAs uint8

const (
	asUnknown parquetAs = iota
	asBool
	asInt
	asUint
	asFloat
	asBytes
	asDecimal
	asDate
	asTime
	asTimestamp
	asUUID
)

// newParquetType finds the way of a type.
func newParquetType(t parquet.Type) parquetType {
	if l := t.LogicalType(); l != nil {
		switch v := l.Value.(type) {
		case *format.DecimalType:
			if v.Scale < 0 || v.Scale > mostScale {
				return parquetType{}
			}
			return parquetType{as: asDecimal, scale: int(v.Scale)}
		case *format.DateType:
			return parquetType{as: asDate}
		case *format.TimeType:
			return newTimeType(asTime, v.Unit)
		case *format.TimestampType:
			return newTimeType(asTimestamp, v.Unit)
		case *format.IntType:
			if !v.IsSigned {
				return parquetType{as: asUint}
			}
		case *format.UUIDType:
			return parquetType{as: asUUID}
		case *format.Float16Type:
			return parquetType{}
		}
	}
	switch t.Kind() {
	case parquet.Boolean:
		return parquetType{as: asBool}
	case parquet.Int32, parquet.Int64:
		return parquetType{as: asInt}
	case parquet.Float, parquet.Double:
		return parquetType{as: asFloat}
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return parquetType{as: asBytes}
	}
	return parquetType{}
}

// mostScale is the largest scale of a decimal in a file: that of the widest decimals of writers, of 256 bits.
const mostScale = 76

// newTimeType is the way of a time with a unit. A later version of the format may have other units.
func newTimeType(as parquetAs, unit format.TimeUnit) parquetType {
	if unit.Value == nil {
		return parquetType{}
	}
	return parquetType{as: as, unit: unit.Value.Duration()}
}

// textOf returns the canonical text of value i, in scratch if that is of use: of numbers as
// Python writes them, of booleans 1 and 0 for numbers and else true and false, of dates
// and times as in 2014-10-21 13:00:05.25.
func (v *parquetValues) textOf(i int, number bool, scratch []byte) []byte {
	dst := scratch[:0]
	switch v.as {
	case asBool:
		return appendBool(dst, v.boolean(i) == 1, number)
	case asUint:
		if v.kind == parquet.Int32 {
			return strconv.AppendUint(dst, uint64(v.bits32(i)), 10)
		}
		return strconv.AppendUint(dst, v.bits64(i), 10)
	case asInt:
		return strconv.AppendInt(dst, v.integer(i), 10)
	case asFloat:
		if v.kind == parquet.Float {
			return appendFloat(dst, float64(math.Float32frombits(v.bits32(i))), 32)
		}
		return appendFloat(dst, math.Float64frombits(v.bits64(i)), 64)
	case asDecimal:
		return v.appendDecimal(dst, i)
	case asDate:
		return time.Unix(v.integer(i)*86400, 0).UTC().AppendFormat(dst, "2006-01-02")
	case asTime:
		return timeOf(v.integer(i), v.unit).AppendFormat(dst, "15:04:05.999999999")
	case asTimestamp:
		return timeOf(v.integer(i), v.unit).AppendFormat(dst, "2006-01-02 15:04:05.999999999")
	case asUUID:
		return appendUUID(dst, v.blob(i))
	}
	return v.blob(i)
}

func appendBool(dst []byte, x, number bool) []byte {
	switch {
	case number && x:
		return append(dst, '1')
	case number:
		return append(dst, '0')
	}
	return strconv.AppendBool(dst, x)
}

// appendFloat appends the shortest text that reads as x, with a point or an exponent.
func appendFloat(dst []byte, x float64, bits int) []byte {
	switch a := math.Abs(x); {
	case math.IsNaN(x):
		return append(dst, "nan"...)
	case math.IsInf(x, 1):
		return append(dst, "inf"...)
	case math.IsInf(x, -1):
		return append(dst, "-inf"...)
	case a != 0 && (a < 1e-4 || a >= 1e16):
		return strconv.AppendFloat(dst, x, 'e', -1, bits)
	}
	begin := len(dst)
	dst = strconv.AppendFloat(dst, x, 'f', -1, bits)
	if !strings.Contains(string(dst[begin:]), ".") {
		dst = append(dst, ".0"...)
	}
	return dst
}

// timeOf is the time of a count of units since 1970.
func timeOf(n int64, unit time.Duration) time.Time {
	each := int64(time.Second / unit)
	second, rest := n/each, n%each
	if rest < 0 {
		second, rest = second-1, rest+each
	}
	return time.Unix(second, rest*int64(unit)).UTC()
}

// appendDecimal appends a decimal number with all digits of its scale.
func (v *parquetValues) appendDecimal(dst []byte, i int) []byte {
	var x big.Int
	if v.kind == parquet.Int32 || v.kind == parquet.Int64 {
		x.SetInt64(v.integer(i))
	} else if b := v.blob(i); len(b) > 0 { // big-endian, two's complement
		x.SetBytes(b)
		if b[0] >= 0x80 {
			x.Sub(&x, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
	}
	digits := new(big.Int).Abs(&x).String()
	if len(digits) <= v.scale {
		digits = strings.Repeat("0", v.scale+1-len(digits)) + digits
	}
	if x.Sign() < 0 {
		dst = append(dst, '-')
	}
	point := len(digits) - max(v.scale, 0)
	dst = append(dst, digits[:point]...)
	if point < len(digits) {
		dst = append(append(dst, '.'), digits[point:]...)
	}
	return dst
}

// appendUUID appends 16 bytes as 01234567-89ab-cdef-0123-456789abcdef.
func appendUUID(dst, b []byte) []byte {
	const digits = "0123456789abcdef"
	for i, c := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, digits[c>>4], digits[c&15])
	}
	return dst
}
