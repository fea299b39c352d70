package data

import "math/bits"

// modulo divides by a number fixed in advance with two multiplications (Lemire,
// Kaser and Kurz, "Faster remainder by direct computation", 2019).
type modulo struct {
	c uint64 // ceil(2^64 / d); 0 means 2^64, if d is 1
	d uint64
}

func newModulo(d int64) modulo { return modulo{c: ^uint64(0)/uint64(d) + 1, d: uint64(d)} }

func moduli(rows []int64) []modulo {
	m := make([]modulo, len(rows))
	for i, r := range rows {
		m[i] = newModulo(r)
	}
	return m
}

// of32 is x mod d.
func (m modulo) of32(x uint32) uint32 {
	hi, _ := bits.Mul64(m.c*uint64(x), m.d)
	return uint32(hi)
}

// of64 is x mod d for any x. The quotient by (2^64-1) / d is at most one too small.
func (m modulo) of64(x uint64) uint32 {
	q, _ := bits.Mul64(x, m.c-1)
	r := x - q*m.d
	if r >= m.d {
		r -= m.d
	}
	return uint32(r)
}
