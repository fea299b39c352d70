package kernels

import (
	"crypto/subtle"
	"fmt"

	"github.com/klauspost/reedsolomon"
)

// field is GF(2^8) with the polynomial 0x11D.
var field reedsolomon.LowLevel

func xorPlain(dst, a, b []float32) { subtle.XORBytes(BytesOf(dst), BytesOf(a), BytesOf(b)) }

func (s *stream) XorRows(dst, a Matrix, ia Buffer, b Matrix, ib Buffer) {
	const op = "XorRows"
	out := elementsOf(op, "dst", dst, dst.Rows, dst.Cols)
	if len(out) == 0 {
		return
	}
	s.xorRows(op, xorTask{rows: dst.Rows, dst: out, dstStride: dst.Stride}, dst.Cols, a, ia, b, ib)
}

func (s *stream) FoldRows(dst Matrix, index Buffer, src Matrix, from Buffer, factors []byte) {
	const op = "FoldRows"
	checkFactors(op, factors, index)
	s.xorRows(op, xorTask{rows: index.Floats(), into: true, factors: factors}, dst.Cols, dst, index, src, from)
}

func (s *stream) xorRows(op string, t xorTask, d int, a Matrix, ia Buffer, b Matrix, ib Buffer) {
	if d != a.Cols || d != b.Cols {
		panic(fmt.Sprintf("kernels: %s of rows of %d, %d and %d columns", op, d, a.Cols, b.Cols))
	}
	if t.rows == 0 {
		return
	}
	t.op, t.innerLoops, t.d, t.grain, t.ahead = op, s.innerLoops, d, grainFor(4*d), aheadFor(d)
	t.a, t.ia, t.aStride, t.aLimit = elementsOf(op, "first", a, a.Rows, a.Cols), indexesOf(op, "first index", ia, t.rows), a.Stride, a.Rows
	t.b, t.ib, t.bStride, t.bLimit = elementsOf(op, "second", b, b.Rows, b.Cols), indexesOf(op, "second index", ib, t.rows), b.Stride, b.Rows
	s.xoring = t
	s.pool.runTask(partsOf(t.rows, t.grain), &s.xoring)
	s.xoring = xorTask{}
}

// xorTask sets dst row i, or a row ia[i] in place, to a row ia[i] XOR b row ib[i]. If
// there are factors, b row ib[i] is multiplied by factors[i] first.
type xorTask struct {
	*innerLoops
	op                          string
	into                        bool
	d, grain, ahead, rows       int
	dst, a, b                   []float32
	ia, ib                      []int32
	factors                     []byte // of b's rows, only if into is set; none: all are 1
	dstStride, aStride, bStride int    // floats
	aLimit, bLimit              int
}

func (t *xorTask) runPart(_, i int) {
	lo, hi := partSpan(i, t.grain, t.rows)
	checkIndexes(t.op, "first index", t.ia[lo:hi], t.aLimit)
	checkIndexes(t.op, "second index", t.ib[lo:hi], t.bLimit)
	t.prefetchRows(lo, min(lo+t.ahead, hi))
	for from := lo; from < hi; from += t.ahead {
		to := min(from+t.ahead, hi)
		t.prefetchRows(to, min(to+t.ahead, hi)) // the next rows, while these are computed
		for k := from; k < to; k++ {
			a := t.a[int(t.ia[k])*t.aStride:][:t.d]
			dst := a
			if !t.into {
				dst = t.dst[k*t.dstStride:][:t.d]
			}
			b := t.b[int(t.ib[k])*t.bStride:][:t.d]
			if len(t.factors) > 0 && t.factors[k] != 1 {
				field.GalMulSliceXor(t.factors[k], BytesOf(b), BytesOf(dst))
				continue
			}
			t.xor(dst, a, b)
		}
	}
}

// prefetchRows prefetches the operands of rows [from, to).
func (t *xorTask) prefetchRows(from, to int) {
	t.prefetch(t.a, t.aStride, t.ia[from:to], 4*t.d)
	t.prefetch(t.b, t.bStride, t.ib[from:to], 4*t.d)
}
