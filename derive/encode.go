package derive

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Encoding is how the weights of a row are written. The parts of a row follow each other; numbers are little-endian.
type Encoding string

const (
	// Float32 has the weights as they are, 4 bytes each.
	Float32 Encoding = "float32"
	// Float16 has IEEE 754 binary16 numbers, 2 bytes each, rounded to nearest, ties to even. A weight beyond the largest number
	// of the format becomes that number.
	Float16 Encoding = "float16"
	// Int8 has for each part a scale, float32, and a signed byte for each weight, which is about byte * scale. The scale is the
	// largest magnitude of the part, divided by 127.
	Int8 Encoding = "int8"
)

// ParseEncoding returns the encoding of a name.
func ParseEncoding(name string) (Encoding, error) {
	switch e := Encoding(name); e {
	case Float32, Float16, Int8:
		return e, nil
	}
	return "", fmt.Errorf("%q is no encoding of rows: use float32, float16 or int8", name)
}

// Bytes is the length of a row with parts of some weights each.
func (e Encoding) Bytes(parts []int) (n int) {
	for _, width := range parts {
		switch e {
		case Float32:
			n += 4 * width
		case Float16:
			n += 2 * width
		default:
			n += 4 + width
		}
	}
	return n
}

// Error measures the changes of an encoding.
type Error struct {
	Weights   int64   // finite ones, which are measured
	Max, Sum  float64 // of the absolute differences between weights and decoded weights
	Saturated int64   // weights beyond the largest number of the encoding
	NotFinite int64   // weights that are infinite or no numbers
}

// Mean is the mean absolute difference.
func (e *Error) Mean() float64 { return e.Sum / float64(max(1, e.Weights)) }

// noteWeight notes a weight, and its value after decoding.
func (e *Error) noteWeight(weight, decoded float32) {
	if weight-weight != 0 {
		e.NotFinite++
		return
	}
	d := math.Abs(float64(weight) - float64(decoded))
	e.Weights, e.Max, e.Sum = e.Weights+1, max(e.Max, d), e.Sum+d
}

// Append appends a row, and adds to the error.
func (e Encoding) Append(to []byte, parts []int, weights []float32, sum *Error) []byte {
	switch e {
	case Float32:
		for _, w := range weights {
			to = binary.LittleEndian.AppendUint32(to, math.Float32bits(w))
			sum.noteWeight(w, w)
		}
	case Float16:
		for _, w := range weights {
			h, saturated := toHalf(w)
			if saturated {
				sum.Saturated++
			}
			to = binary.LittleEndian.AppendUint16(to, h)
			sum.noteWeight(w, fromHalf(h))
		}
	default:
		for _, width := range parts {
			to, weights = appendInt8(to, weights[:width], sum), weights[width:]
		}
	}
	return to
}

// appendInt8 appends a part as int8.
func appendInt8(to []byte, weights []float32, sum *Error) []byte {
	largest := float32(0)
	for _, w := range weights {
		if w-w == 0 {
			largest = max(largest, float32(math.Abs(float64(w))))
		}
	}
	scale := largest / 127
	if math.IsInf(float64(127*scale), 0) { // the quotient was rounded up
		scale = math.Nextafter32(scale, 0)
	}
	to = binary.LittleEndian.AppendUint32(to, math.Float32bits(scale))
	for _, w := range weights {
		q := 0.0
		switch {
		case w != w:
		case scale > 0:
			q = max(-127, min(127, math.RoundToEven(float64(w)/float64(scale))))
		case w-w != 0: // infinite, beside zeros
			q = math.Copysign(127, float64(w))
		}
		to = append(to, byte(int8(q)))
		sum.noteWeight(w, float32(q)*scale)
	}
	return to
}

// Decode appends the weights of an encoded row.
func (e Encoding) Decode(to []float32, parts []int, value []byte) ([]float32, error) {
	if len(value) != e.Bytes(parts) {
		return to, fmt.Errorf("a row of %d bytes, not the %d of %v weights as %s", len(value), e.Bytes(parts), parts, e)
	}
	for _, width := range parts {
		var scale float32
		if e == Int8 {
			scale, value = math.Float32frombits(binary.LittleEndian.Uint32(value)), value[4:]
		}
		for range width {
			switch e {
			case Float32:
				to, value = append(to, math.Float32frombits(binary.LittleEndian.Uint32(value))), value[4:]
			case Float16:
				to, value = append(to, fromHalf(binary.LittleEndian.Uint16(value))), value[2:]
			default:
				to, value = append(to, float32(int8(value[0]))*scale), value[1:]
			}
		}
	}
	return to, nil
}

// The largest finite binary16, and its infinity.
const (
	halfMax = 0x7bff
	halfInf = 0x7c00
)

// toHalf rounds a number to binary16, to nearest, ties to even. A finite number that would become infinite becomes the largest one:
// saturated.
func toHalf(x float32) (h uint16, saturated bool) {
	b := math.Float32bits(x)
	sign, b := uint16(b>>16)&0x8000, b&0x7fffffff
	switch {
	case b > 0x7f800000: // not a number
		return sign | halfInf | 0x200 | uint16(b>>13)&0x1ff, false
	case b == 0x7f800000:
		return sign | halfInf, false
	case b < 0x38800000: // under 2^-14: a multiple of 2^-24
		if b < 0x33000000 { // under 2^-25
			return sign, false
		}
		shift := 126 - b>>23
		return sign | uint16(roundShift(b&0x7fffff|0x800000, shift)), false
	}
	if r := roundShift(b-0x38000000, 13); r < halfInf { // the exponents differ by 112
		return sign | uint16(r), false
	}
	return sign | halfMax, true
}

// roundShift is x / 2^n, rounded to nearest, ties to even.
func roundShift(x, n uint32) uint32 {
	half := uint32(1) << (n - 1)
	r, rest := x>>n, x&(2*half-1)
	if rest > half || rest == half && r&1 == 1 {
		r++
	}
	return r
}

// fromHalf is the float32 that equals a binary16.
func fromHalf(h uint16) float32 {
	sign, exponent, fraction := uint32(h&0x8000)<<16, uint32(h>>10)&31, uint32(h&0x3ff)
	switch exponent {
	case 0:
		x := float32(fraction) * (1.0 / (1 << 24)) // exact
		return math.Float32frombits(sign | math.Float32bits(x))
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}
