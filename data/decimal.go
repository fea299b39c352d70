package data

import (
	"encoding/binary"
	"math"
	"strconv"
	"unsafe"
)

// parseDigits is the number of up to eight digits, whose count changes no branch: numbers of a column have different ones. No
// digits are 0. It may look at bytes of b's capacity.
func parseDigits(b []byte) (uint32, bool) {
	if len(b) > 8 || cap(b) < 8 {
		return 0, false
	}
	before := 64 - 8*uint(len(b)) // bits of zeros before the digits
	d := (binary.LittleEndian.Uint64(b[:8]) ^ lowBits*'0') << before
	if (d+lowBits*(0x80-10)|d)&highBits != 0 {
		return 0, false // a byte above 9
	}
	d = d*10 + d>>8 // of two digits, in every other byte
	const pairs = 0x000000FF_000000FF
	return uint32((d&pairs*(1_000_000<<32+100) + d>>16&pairs*(10_000<<32+1)) >> 32), true
}

// powersOfTen holds 10^i.
var powersOfTen = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// parseDecimal is the float32 next to the float64 next to a decimal number, with
// spaces around it allowed; an empty field is 0.
func parseDecimal(b []byte) (float32, bool) {
	if n, ok := parseDigits(b); ok {
		return float32(n), true
	}
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	for len(b) > 0 && b[len(b)-1] == ' ' {
		b = b[:len(b)-1]
	}
	if x, ok := parseShort(b); ok {
		return x, true
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

// parseShort is parseDecimal for up to 15 digits, perhaps with a point and a minus before them. They are an exact float64, as
// is a power of ten up to 10^22: their quotient is rounded once (Clinger, "How to read floating point numbers accurately",
// 1990).
func parseShort(b []byte) (float32, bool) {
	i := 0
	if len(b) > 0 && b[0] == '-' {
		i = 1
	}
	x, sign, point := int64(0), i, len(b)
	for ; i < len(b); i++ {
		switch {
		case b[i]-'0' <= 9:
			x = x*10 + int64(b[i]-'0')
		case b[i] == '.' && point == len(b):
			point = i
		default:
			return 0, false
		}
		if i-sign > 15 {
			return 0, false
		}
	}
	switch {
	case point == len(b) && (len(b) > sign || len(b) == 0) && len(b)-sign <= 15:
		if sign == 1 {
			x = -x
		}
		return float32(x), true // -0 is 0
	case point == len(b) || len(b)-sign < 2:
		return 0, false
	}
	f := float64(x) / powersOfTen[len(b)-1-point]
	if sign == 1 {
		f = -f
	}
	return float32(f), true
}
