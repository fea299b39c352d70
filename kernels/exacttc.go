package kernels

import (
	"math"
	"unsafe"
)

// Products of pieces (CPUOptions.BLAS "exact-tc") in plain Go, as the package's doc defines them.
// They are for checks of the CUDA backend, whose tensor cores compute the same bits: without
// vector instructions they take some ten times as long as the CPU's own products.

// exactTC is the BLAS that computes products in pieces.
const exactTC = "exact-tc"

// pieceLinks is the number of links of a piece.
const pieceLinks = 1024

// scaleOf returns the exponent of the scale of a piece of a row, and the reciprocal of the scale.
// most has the bits of the greatest magnitude in it. Adding 2^17 carries into the exponent if
// the fraction is that of 127 * 2^16 at least.
func scaleOf(most uint32) (exponent int, down float32) {
	e := int((most + 1<<17) >> 23)
	switch {
	case most >= 0x7f800000: // Inf or NaN
		down = float32(math.NaN())
	case e < 23:
		down = math.Float32frombits(1 << e)
	default:
		down = math.Float32frombits(uint32(e-22) << 23)
	}
	return 149 - e, down
}

// quantizePiece sets dst to the integers of a piece of a row. Its floats are step bytes apart. It
// returns the reciprocal of its scale.
func quantizePiece(dst []int32, src unsafe.Pointer, step uintptr) (down float32) {
	most := uint32(0)
	for i := range dst {
		most = max(most, *(*uint32)(unsafe.Add(src, uintptr(i)*step))&0x7fffffff)
	}
	exponent, down := scaleOf(most)
	scale := math.Float64frombits(uint64(exponent+1023) << 52)
	for i := range dst {
		// The product is exact. The addition rounds it to the nearest integer, in the sum's low bits.
		x := float64(*(*float32)(unsafe.Add(src, uintptr(i)*step)))
		dst[i] = int32(math.Float64bits(float64(x*scale) + 0x1.8p52))
	}
	return down
}

// pieces is the scratch of products of pieces.
type pieces struct {
	of     bool // products are of pieces
	k0, k1 int  // the piece in progress
	b      []int32
	downB  []float32
	a      [][]int32 // of each worker: the integers of one row of A
}

// runPieces runs p in pieces. Bias, activation and gate are then a product of length 0 that
// continues from C, as in runBLAS.
func (p *product) runPieces() {
	s := &p.g.pieces
	if floats := p.n * min(p.k, pieceLinks); len(s.b) < floats {
		s.b = make([]int32, floats)
	}
	if len(s.downB) < p.n {
		s.downB = make([]float32, p.n)
	}
	if s.a == nil {
		s.a = make([][]int32, p.g.pool.threads)
	}
	for s.k0 = 0; s.k0 < p.k; s.k0 = s.k1 {
		s.k1 = min(s.k0+pieceLinks, p.k)
		p.g.pool.runTask(partsOf(p.n, quantizedRows), (*quantizePhase)(p))
		p.g.pool.runTask(partsOf(p.m, pieceRows), (*piecePhase)(p))
	}
	if p.sum != nil {
		p.runSums()
	}
	if p.bias != nil || p.relu != 0 || p.gate.ptr != nil {
		p.k, p.load = 0, 1
		p.runPanels()
	}
}

// quantizedRows and pieceRows are the numbers of columns of B and of rows of C in a part.
const quantizedRows, pieceRows = 16, 8

// quantizePhase makes the integers of a piece of B, a column of B at a time.
type quantizePhase product

func (q *quantizePhase) runPart(_, i int) {
	p := (*product)(q)
	s := &p.g.pieces
	k := s.k1 - s.k0
	for j, hi := partSpan(i, quantizedRows, p.n); j < hi; j++ {
		s.downB[j] = quantizePiece(s.b[j*k:][:k], p.b.elementAt(s.k0, j), p.b.rs)
	}
}

// piecePhase adds a piece to rows of C. The first piece is stored.
type piecePhase product

func (q *piecePhase) runPart(worker, i int) {
	p := (*product)(q)
	s := &p.g.pieces
	if s.a[worker] == nil {
		s.a[worker] = make([]int32, pieceLinks)
	}
	k := s.k1 - s.k0
	a := s.a[worker][:k]
	for r, hi := partSpan(i, pieceRows, p.m); r < hi; r++ {
		down := quantizePiece(a, p.a.elementAt(r, s.k0), p.a.cs)
		c := unsafe.Slice((*float32)(p.c.elementAt(r, 0)), p.n)
		for j := 0; j < p.n; j += 4 {
			b := s.b[j*k:]
			var sums [4]int64
			if p.n-j >= 4 {
				sums = dot4(a, b)
			} else {
				for l := range p.n - j {
					sums[l] = dotIntegers(a, b[l*k:])
				}
			}
			for l := range min(4, p.n-j) {
				v := valueOf(sums[l], down, s.downB[j+l])
				if s.k0 > 0 {
					v = c[j+l] + v
				}
				c[j+l] = v
			}
		}
	}
}

// valueOf returns the value of a piece: the sum, rounded once, times both reciprocals. The first
// product is exact: the smaller reciprocal cannot overflow it before the greater does.
func valueOf(sum int64, a, b float32) float32 {
	if !(a <= b) {
		a, b = b, a
	}
	return float32(float32(float32(sum)*a) * b)
}

// dotIntegers returns the sum of the products of integers, exactly: a piece's is below 2^57.
func dotIntegers(a, b []int32) (sum int64) {
	b = b[:len(a)]
	for i, x := range a {
		sum += int64(x) * int64(b[i])
	}
	return sum
}

// dot4 returns dotIntegers of four rows that follow each other in b.
func dot4(a, b []int32) [4]int64 {
	k := len(a)
	b0, b1, b2, b3 := b[:k], b[k:][:k], b[2*k:][:k], b[3*k:][:k]
	var s0, s1, s2, s3 int64
	for i, x := range a {
		v := int64(x)
		s0 += v * int64(b0[i])
		s1 += v * int64(b1[i])
		s2 += v * int64(b2[i])
		s3 += v * int64(b3[i])
	}
	return [4]int64{s0, s1, s2, s3}
}
