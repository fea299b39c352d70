package f32

import "math"

// FMA returns a*b + c rounded once to float32, as the hardware's FMA does.
//
// The product of two float32 is exact in float64. Its sum with c is rounded to
// odd there, after which the conversion to float32 rounds correctly (Boldo and
// Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
func FMA(a, b, c float32) float32 {
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
