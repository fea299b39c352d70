package kernels

import (
	"fmt"
	"math"
)

// Norm is a batch norm of the n columns of a matrix. Each buffer holds n floats: the mean of each
// column, the inverse of its standard deviation, and the scale and offset that follow.
type Norm struct{ Mean, Inv, Gamma, Beta Buffer }

// normColumns is the number of columns that a part takes where sums run down the rows. It fills
// whole cache lines.
const normColumns = 64

// normTask is an operation of a batch norm. Operations that add up take columns, the others rows.
type normTask struct {
	op func(t *normTask, row, lo, hi int) // on columns [lo, hi) of a row
	*vectorLoops
	x, y, dy                   []float32
	xStride, yStride, dyStride int
	mean, inv, gamma, beta     []float32
	a, b                       []float32 // sums, by column
	rows, cols                 int
	grain                      int // rows of a part; 0: a part has normColumns columns
	relu                       bool
}

func (t *normTask) runPart(_, i int) {
	if t.grain > 0 {
		for r, hi := partSpan(i, t.grain, t.rows); r < hi; r++ {
			t.op(t, r, 0, t.cols)
		}
		return
	}
	lo, hi := partSpan(i, normColumns, t.cols)
	for r := range t.rows {
		t.op(t, r, lo, hi)
	}
}

// runNorm runs an operation over x.
func (s *stream) runNorm(t normTask, x Matrix) {
	t.vectorLoops, t.rows, t.cols, t.xStride = s.vectors, x.Rows, x.Cols, x.Stride
	if t.rows == 0 || t.cols == 0 {
		return
	}
	s.norming = t
	parts := partsOf(t.cols, normColumns)
	if t.grain > 0 {
		parts = partsOf(t.rows, t.grain)
	}
	s.pool.runTask(parts, &s.norming)
	s.norming = normTask{}
}

// columnsOf views b as n floats. It panics if b has another length.
func columnsOf(op, name string, b Buffer, n int) []float32 {
	v := floatsOf(op, name, b)
	if len(v) != n {
		panic(fmt.Sprintf("kernels: %s: %s holds %d floats, want %d", op, name, len(v), n))
	}
	return v
}

func (s *stream) ColumnSums(sums Buffer, x Matrix) {
	const op = "ColumnSums"
	t := normTask{op: addRow, x: elementsOf(op, "x", x, x.Rows, x.Cols), a: columnsOf(op, "sums", sums, x.Cols)}
	clear(t.a)
	s.runNorm(t, x)
}

func addRow(t *normTask, r, lo, hi int) { t.add(t.a[lo:hi], t.x[r*t.xStride:][lo:hi]) }

func (s *stream) ColumnSquares(sums Buffer, x Matrix, mean Buffer) {
	const op = "ColumnSquares"
	t := normTask{op: addSquaresRow, x: elementsOf(op, "x", x, x.Rows, x.Cols), a: columnsOf(op, "sums", sums, x.Cols),
		mean: columnsOf(op, "mean", mean, x.Cols)}
	clear(t.a)
	s.runNorm(t, x)
}

func addSquaresRow(t *normTask, r, lo, hi int) {
	t.addSquares(t.a[lo:hi], t.x[r*t.xStride:][lo:hi], t.mean[lo:hi])
}

func (s *stream) BatchNorm(y, x Matrix, n Norm, act Activation) {
	const op = "BatchNorm"
	t := s.normTaskOf(op, x, n)
	t.op, t.grain, t.relu = normalizeRow, grainFor(8*x.Cols), act == ReLU
	t.y, t.yStride, t.beta = elementsOf(op, "y", y, x.Rows, x.Cols), y.Stride, columnsOf(op, "beta", n.Beta, x.Cols)
	s.runNorm(t, x)
}

// normTaskOf is the common part of the operations of a Norm.
func (s *stream) normTaskOf(op string, x Matrix, n Norm) normTask {
	return normTask{x: elementsOf(op, "x", x, x.Rows, x.Cols), mean: columnsOf(op, "mean", n.Mean, x.Cols),
		inv: columnsOf(op, "inv", n.Inv, x.Cols), gamma: columnsOf(op, "gamma", n.Gamma, x.Cols)}
}

func normalizeRow(t *normTask, r, lo, hi int) {
	t.normalize(t.y[r*t.yStride:][lo:hi], t.x[r*t.xStride:][lo:hi], t.mean[lo:hi], t.inv[lo:hi], t.gamma[lo:hi], t.beta[lo:hi], t.relu)
}

func (s *stream) BatchNormSums(dgamma, dbeta Buffer, dy, x Matrix, n Norm) {
	const op = "BatchNormSums"
	t := s.normTaskOf(op, x, n)
	t.op, t.dy, t.dyStride = addGradsRow, elementsOf(op, "dy", dy, x.Rows, x.Cols), dy.Stride
	t.a, t.b = columnsOf(op, "dgamma", dgamma, x.Cols), columnsOf(op, "dbeta", dbeta, x.Cols)
	clear(t.a)
	clear(t.b)
	s.runNorm(t, x)
}

func addGradsRow(t *normTask, r, lo, hi int) {
	t.addGrads(t.a[lo:hi], t.b[lo:hi], t.dy[r*t.dyStride:][lo:hi], t.x[r*t.xStride:][lo:hi], t.mean[lo:hi], t.inv[lo:hi])
}

func (s *stream) BatchNormGrad(dx, dy, x Matrix, n Norm, dgamma, dbeta Buffer, samples int) {
	const op = "BatchNormGrad"
	t := s.normTaskOf(op, x, n)
	t.op, t.grain = normalizeGradRow, grainFor(12*x.Cols)
	t.y, t.yStride = elementsOf(op, "dx", dx, x.Rows, x.Cols), dx.Stride
	t.dy, t.dyStride = elementsOf(op, "dy", dy, x.Rows, x.Cols), dy.Stride
	dg, db := columnsOf(op, "dgamma", dgamma, x.Cols), columnsOf(op, "dbeta", dbeta, x.Cols)
	if len(s.normed) < 3*x.Cols {
		s.normed = make([]float32, 3*x.Cols)
	}
	a, b, c := s.normed[:x.Cols], s.normed[x.Cols:][:x.Cols], s.normed[2*x.Cols:][:x.Cols]
	for j := range a {
		a[j], b[j], c[j] = db[j]/float32(samples), dg[j]/float32(samples), t.gamma[j]*t.inv[j]
	}
	t.a, t.b, t.gamma = a, b, c
	s.runNorm(t, x)
}

func normalizeGradRow(t *normTask, r, lo, hi int) {
	t.normalizeGrad(t.y[r*t.yStride:][lo:hi], t.dy[r*t.dyStride:][lo:hi], t.x[r*t.xStride:][lo:hi],
		t.mean[lo:hi], t.inv[lo:hi], t.a[lo:hi], t.b[lo:hi], t.gamma[lo:hi])
}

func (s *stream) Average(dst, sums Buffer, by, rate float32) {
	const op = "Average"
	d := floatsOf(op, "dst", dst)
	for j, x := range columnsOf(op, "sums", sums, len(d)) {
		if rate == 1 {
			d[j] = x / by
		} else {
			d[j] = float32((1-rate)*d[j]) + float32(rate*(x/by))
		}
	}
}

func (s *stream) InverseRoot(dst, sums Buffer, by, eps float32) {
	const op = "InverseRoot"
	d := floatsOf(op, "dst", dst)
	for j, x := range columnsOf(op, "sums", sums, len(d)) {
		d[j] = 1 / float32(math.Sqrt(float64(x/by+eps)))
	}
}

func (s *stream) Scale(dst, src Buffer, by float32) {
	const op = "Scale"
	d := floatsOf(op, "dst", dst)
	s.scaling = scaleTask{s.vectors, d, columnsOf(op, "src", src, len(d)), by}
	s.pool.runTask(partsOf(len(d), partBytes/8), &s.scaling)
	s.scaling = scaleTask{}
}

type scaleTask struct {
	*vectorLoops
	dst, src []float32
	by       float32
}

func (t *scaleTask) runPart(_, i int) {
	lo, hi := partSpan(i, partBytes/8, len(t.dst))
	t.scale(t.dst[lo:hi], t.src[lo:hi], t.by)
}
