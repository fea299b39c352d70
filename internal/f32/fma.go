package f32

import "math"

// FMA returns a*b + c rounded once to float32, as the hardware's FMA does.
//
// The product of two float32 is exact in float64, so only the sum is rounded
// there. Rounding that to float32 errs only if it is half way between two float32:
// all other sums are on the same side of every half way point as the exact sum. Half
// way means these low bits, unless the result is subnormal.
func FMA(a, b, c float32) float32 {
	s := float64(a)*float64(b) + float64(c)
	if u := math.Float64bits(s); u&(1<<29-1) != 1<<28 && u<<1 >= (1023-126)<<53 {
		return float32(s)
	}
	return fmaToOdd(a, b, c)
}

// fmaToOdd is FMA for every case: the sum is rounded to odd in float64, after
// which the conversion to float32 rounds correctly (Boldo and Melquiond,
// "Emulation of a FMA and correctly rounded sums", 2008).
func fmaToOdd(a, b, c float32) float32 {
	p := float64(a) * float64(b)
	z := float64(c)
	s := p + z
	// Knuth's TwoSum: s + e is p + z exactly.
	t := s - p
	e := (p - (s - t)) + (z - t)
	if e != 0 {
		bits := math.Float64bits(s)
		if bits&1 == 0 && !math.IsInf(s, 0) && s == s && e == e {
			if (e > 0) == (s > 0) {
				bits++
			} else {
				bits--
			}
			s = math.Float64frombits(bits)
		}
	}
	return float32(s)
}
