package kernels

import "fmt"

func (s *stream) ScatterRows(dst, src Matrix, index Buffer) {
	const op = "ScatterRows"
	if dst.Cols != src.Cols {
		panic(fmt.Sprintf("kernels: %s: dst has %d columns, src %d", op, dst.Cols, src.Cols))
	}
	x := elementsOf(op, "src", src, src.Rows, src.Cols)
	ids := indexesOf(op, "index", index, src.Rows)
	if len(x) == 0 {
		return
	}
	s.scattering = scatterTask{
		dst: elementsOf(op, "dst", dst, dst.Rows, dst.Cols), src: x, index: ids, d: src.Cols,
		dstStride: dst.Stride, srcStride: src.Stride, limit: dst.Rows,
		grain: grainFor(4 * src.Cols), ahead: aheadFor(src.Cols), innerLoops: s.innerLoops,
	}
	s.pool.runTask(partsOf(src.Rows, s.scattering.grain), &s.scattering)
	s.scattering = scatterTask{}
}

// scatterTask copies src row i to dst row index[i].
type scatterTask struct {
	*innerLoops
	dst, src             []float32
	index                []int32
	d                    int
	dstStride, srcStride int // floats
	limit, grain, ahead  int
}

func (t *scatterTask) runPart(_, i int) {
	lo, hi := partSpan(i, t.grain, len(t.index))
	checkIndexes("ScatterRows", "index", t.index[lo:hi], t.limit)
	for from := lo; from < hi; from += t.ahead {
		to := min(from+t.ahead, hi)
		t.prefetch(t.dst, t.dstStride, t.index[from:to], 4*t.d)
		for k := from; k < to; k++ {
			copy(t.dst[int(t.index[k])*t.dstStride:][:t.d], t.src[k*t.srcStride:])
		}
	}
}
