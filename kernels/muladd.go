package kernels

import "fmt"

// mulAddPlain computes dst[i] = a[i] * b[i] + c[i], rounded twice. One float of b counts for all i;
// without c nothing is added.
func mulAddPlain(dst, a, b, c []float32) {
	for i, x := range a {
		y := b[0]
		if len(b) > 1 {
			y = b[i]
		}
		p := float32(x * y)
		if len(c) > 0 {
			p += c[i]
		}
		dst[i] = p
	}
}

func (s *stream) MulAdd(dst, a, b, c Matrix) {
	const op = "MulAdd"
	rows, cols := dst.Rows, dst.Cols
	checkFactor(op, b, rows, cols)
	checkAddend(op, c, rows, cols)
	t := mulAddTask{innerLoops: s.innerLoops, rows: rows, cols: cols, grain: grainFor(16 * cols)}
	t.dst, t.dstStride = elementsOf(op, "dst", dst, rows, cols), dst.Stride
	if len(t.dst) == 0 {
		return
	}
	t.a, t.aStride = elementsOf(op, "a", a, rows, cols), a.Stride
	t.b, t.bStride, t.bCols = elementsOf(op, "b", b, rows, b.Cols), b.Stride, b.Cols
	if c.Buf.bytes > 0 {
		t.c, t.cStride = elementsOf(op, "c", c, c.Rows, cols), c.Stride
		if c.Rows == 1 {
			t.cStride = 0
		}
	}
	s.multiplying = t
	s.pool.runTask(partsOf(rows, t.grain), &s.multiplying)
	s.multiplying = mulAddTask{}
}

// checkFactor panics unless b is (rows, cols) or (rows, 1).
func checkFactor(op string, b Matrix, rows, cols int) {
	if b.Rows != rows || b.Cols != cols && b.Cols != 1 {
		panic(fmt.Sprintf("kernels: %s: b is (%d, %d), want (%d, %d) or (%d, 1)", op, b.Rows, b.Cols, rows, cols, rows))
	}
}

// checkAddend panics unless c is empty, (rows, cols) or (1, cols).
func checkAddend(op string, c Matrix, rows, cols int) {
	if c.Buf.bytes > 0 && (c.Cols != cols || c.Rows != rows && c.Rows != 1) {
		panic(fmt.Sprintf("kernels: %s: c is (%d, %d), want (%d, %d), (1, %d) or empty", op, c.Rows, c.Cols, rows, cols, cols))
	}
}

// mulAddTask sets rows of dst. cStride is 0 if c is one row.
type mulAddTask struct {
	*innerLoops
	dst, a, b, c                         []float32
	dstStride, aStride, bStride, cStride int
	rows, cols, bCols, grain             int
}

func (t *mulAddTask) runPart(_, i int) {
	for r, hi := partSpan(i, t.grain, t.rows); r < hi; r++ {
		var c []float32
		if len(t.c) > 0 {
			c = t.c[r*t.cStride:][:t.cols]
		}
		t.mulAdd(t.dst[r*t.dstStride:][:t.cols], t.a[r*t.aStride:][:t.cols], t.b[r*t.bStride:][:t.bCols], c)
	}
}
