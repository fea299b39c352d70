package kernels

import (
	"crypto/subtle"
	"fmt"
)

func (s *stream) XorRows(dst, a Matrix, ia Buffer, b Matrix, ib Buffer) {
	const op = "XorRows"
	if dst.Cols != a.Cols || dst.Cols != b.Cols {
		panic(fmt.Sprintf("kernels: %s of rows of %d and %d columns to %d", op, a.Cols, b.Cols, dst.Cols))
	}
	out := elementsOf(op, "dst", dst, dst.Rows, dst.Cols)
	if len(out) == 0 {
		return
	}
	s.xoring = xorTask{
		bodies: s.bodies, d: dst.Cols, grain: grainFor(4 * dst.Cols), ahead: aheadFor(dst.Cols), rows: dst.Rows,
		dst: out, dstStride: dst.Stride,
		a: elementsOf(op, "a", a, a.Rows, a.Cols), ia: indexesOf(op, "ia", ia, dst.Rows), aStride: a.Stride, aLimit: a.Rows,
		b: elementsOf(op, "b", b, b.Rows, b.Cols), ib: indexesOf(op, "ib", ib, dst.Rows), bStride: b.Stride, bLimit: b.Rows,
	}
	s.pool.run(tiles(dst.Rows, s.xoring.grain), &s.xoring)
	s.xoring = xorTask{}
}

// xorTask sets dst row i to a row ia[i] XOR b row ib[i].
type xorTask struct {
	*bodies
	d, grain, ahead, rows       int
	dst, a, b                   []float32
	ia, ib                      []int32
	dstStride, aStride, bStride int // floats
	aLimit, bLimit              int
}

func (t *xorTask) tile(_, i int) {
	lo, hi := span(i, t.grain, t.rows)
	checkIndexes("XorRows", "ia", t.ia[lo:hi], t.aLimit)
	checkIndexes("XorRows", "ib", t.ib[lo:hi], t.bLimit)
	for from := lo; from < hi; from += t.ahead {
		to := min(from+t.ahead, hi)
		t.prefetch(t.a, t.aStride, t.ia[from:to], 4*t.d)
		t.prefetch(t.b, t.bStride, t.ib[from:to], 4*t.d)
		for k := from; k < to; k++ {
			subtle.XORBytes(BytesOf(t.dst[k*t.dstStride:][:t.d]),
				BytesOf(t.a[int(t.ia[k])*t.aStride:][:t.d]), BytesOf(t.b[int(t.ib[k])*t.bStride:][:t.d]))
		}
	}
}
