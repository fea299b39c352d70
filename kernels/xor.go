package kernels

import (
	"crypto/subtle"
	"fmt"
)

func xorPlain(dst, a, b []float32) { subtle.XORBytes(BytesOf(dst), BytesOf(a), BytesOf(b)) }

func (s *stream) XorRows(dst, a Matrix, ia Buffer, b Matrix, ib Buffer) {
	const op = "XorRows"
	out := elementsOf(op, "dst", dst, dst.Rows, dst.Cols)
	if len(out) == 0 {
		return
	}
	s.xorRows(op, xorTask{rows: dst.Rows, dst: out, dstStride: dst.Stride}, dst.Cols, a, ia, b, ib)
}

func (s *stream) XorInto(dst Matrix, index Buffer, src Matrix, from Buffer) {
	s.xorRows("XorInto", xorTask{rows: index.Floats(), into: true}, dst.Cols, dst, index, src, from)
}

func (s *stream) xorRows(op string, t xorTask, d int, a Matrix, ia Buffer, b Matrix, ib Buffer) {
	if d != a.Cols || d != b.Cols {
		panic(fmt.Sprintf("kernels: %s of rows of %d, %d and %d columns", op, d, a.Cols, b.Cols))
	}
	if t.rows == 0 {
		return
	}
	t.op, t.bodies, t.d, t.grain, t.ahead = op, s.bodies, d, grainFor(4*d), aheadFor(d)
	t.a, t.ia, t.aStride, t.aLimit = elementsOf(op, "first", a, a.Rows, a.Cols), indexesOf(op, "first index", ia, t.rows), a.Stride, a.Rows
	t.b, t.ib, t.bStride, t.bLimit = elementsOf(op, "second", b, b.Rows, b.Cols), indexesOf(op, "second index", ib, t.rows), b.Stride, b.Rows
	s.xoring = t
	s.pool.run(tiles(t.rows, t.grain), &s.xoring)
	s.xoring = xorTask{}
}

// xorTask sets dst row i, or a row ia[i] itself, to a row ia[i] XOR b row ib[i].
type xorTask struct {
	*bodies
	op                          string
	into                        bool
	d, grain, ahead, rows       int
	dst, a, b                   []float32
	ia, ib                      []int32
	dstStride, aStride, bStride int // floats
	aLimit, bLimit              int
}

func (t *xorTask) tile(_, i int) {
	lo, hi := span(i, t.grain, t.rows)
	checkIndexes(t.op, "first index", t.ia[lo:hi], t.aLimit)
	checkIndexes(t.op, "second index", t.ib[lo:hi], t.bLimit)
	t.ask(lo, min(lo+t.ahead, hi))
	for from := lo; from < hi; from += t.ahead {
		to := min(from+t.ahead, hi)
		t.ask(to, min(to+t.ahead, hi)) // for the rows after, while these are computed
		for k := from; k < to; k++ {
			a := t.a[int(t.ia[k])*t.aStride:][:t.d]
			dst := a
			if !t.into {
				dst = t.dst[k*t.dstStride:][:t.d]
			}
			t.xor(dst, a, t.b[int(t.ib[k])*t.bStride:][:t.d])
		}
	}
}

// ask asks for rows that will be needed soon.
func (t *xorTask) ask(from, to int) {
	t.prefetch(t.a, t.aStride, t.ia[from:to], 4*t.d)
	t.prefetch(t.b, t.bStride, t.ib[from:to], 4*t.d)
}
