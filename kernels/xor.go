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
	s.runXor(op, xorTask{rowXor: rowXor{rows: dst.Rows, dst: out, dstBytes: 4 * dst.Stride}}, dst.Cols, a, ia, b, ib)
}

func (s *stream) FoldRows(dst Matrix, index Buffer, src Matrix, from Buffer, factors []byte) {
	const op = "FoldRows"
	checkFactors(op, factors, index)
	s.runXor(op, xorTask{rowXor: rowXor{rows: index.Floats(), into: 1}, factors: factors}, dst.Cols, dst, index, src, from)
}

func (s *stream) runXor(op string, t xorTask, d int, a Matrix, ia Buffer, b Matrix, ib Buffer) {
	if d != a.Cols || d != b.Cols {
		panic(fmt.Sprintf("kernels: %s of rows of %d, %d and %d columns", op, d, a.Cols, b.Cols))
	}
	if t.rows == 0 || d == 0 {
		return
	}
	t.stream, t.op, t.d, t.grain, t.ahead = s, op, d, grainFor(4*d), aheadFor(d)
	t.a, t.ia, t.aBytes, t.aLimit = elementsOf(op, "first", a, a.Rows, a.Cols), indexesOf(op, "first index", ia, t.rows), 4*a.Stride, a.Rows
	t.b, t.ib, t.bBytes, t.bLimit = elementsOf(op, "second", b, b.Rows, b.Cols), indexesOf(op, "second index", ib, t.rows), 4*b.Stride, b.Rows
	s.xoring = t
	s.pool.runTask(partsOf(t.rows, t.grain), &s.xoring)
	s.xoring = xorTask{}
}

// xorTask sets dst row i, or a row ia[i] in place, to a row ia[i] XOR b row ib[i]. If
// there are factors, b row ib[i] is multiplied by factors[i] first.
type xorTask struct {
	stream *stream
	rowXor
	op             string
	grain          int
	factors        []byte // of b's rows, only if into is set; none: all are 1
	aLimit, bLimit int
}

func (t *xorTask) runPart(worker, i int) {
	lo, hi := partSpan(i, t.grain, t.rows)
	checkIndexes(t.op, "first index", t.ia[lo:hi], t.aLimit)
	checkIndexes(t.op, "second index", t.ib[lo:hi], t.bLimit)
	// A part prefetches rows of the next one, which may be another worker's.
	t.prefetchRows(lo, min(lo+t.ahead, hi))
	if len(t.factors) > 0 {
		t.foldMultiples(lo, hi)
		return
	}
	x := &t.stream.workers[worker].xor
	*x = t.rowXor
	x.ia, x.ib, x.rows = x.ia[lo:], x.ib[lo:], hi-lo
	if x.into == 0 {
		x.dst = x.dst[lo*x.dstBytes/4:]
	}
	t.stream.xor.rows(x)
	*x = rowXor{} // no operand outlives its operation
}

// foldMultiples adds multiples of b's rows to a's.
func (t *xorTask) foldMultiples(lo, hi int) {
	for from := lo; from < hi; from += t.ahead {
		to := min(from+t.ahead, hi)
		t.prefetchRows(to, min(to+t.ahead, hi)) // the next rows, while these are computed
		for k := from; k < to; k++ {
			a, b := t.aRow(k), t.bRow(k)
			if t.factors[k] != 1 {
				field.GalMulSliceXor(t.factors[k], BytesOf(b), BytesOf(a))
				continue
			}
			t.stream.xor.one(a, a, b)
		}
	}
}

// prefetchRows prefetches the operands of rows [from, to).
func (t *xorTask) prefetchRows(from, to int) {
	t.stream.prefetch(t.a, t.aBytes/4, t.ia[from:to], 4*t.d)
	t.stream.prefetch(t.b, t.bBytes/4, t.ib[from:to], 4*t.d)
}

// rowXor sets dst row i, or a row ia[i] if into is set, to a row ia[i] XOR b row ib[i], for
// i < rows. ia and ib are longer than rows if more rows follow: they are prefetched.
type rowXor struct {
	dst, a, b                []float32
	ia, ib                   []int32
	rows, d                  int
	dstBytes, aBytes, bBytes int // from one row to the next
	ahead                    int // the distance of the rows that are prefetched
	into                     int // 1: a's rows are set in place, and dst is empty
}

func xorRowsPlain(x *rowXor) {
	for i := range x.rows {
		a := x.aRow(i)
		dst := a
		if x.into == 0 {
			dst = x.dst[i*x.dstBytes/4:][:x.d]
		}
		xorPlain(dst, a, x.bRow(i))
	}
}

// aRow and bRow are the operands of row i.
func (x *rowXor) aRow(i int) []float32 { return x.a[int(x.ia[i])*x.aBytes/4:][:x.d] }
func (x *rowXor) bRow(i int) []float32 { return x.b[int(x.ib[i])*x.bBytes/4:][:x.d] }
