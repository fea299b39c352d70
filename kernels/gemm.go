package kernels

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/openblas"
)

// gemm computes the matrix products of one stream. It belongs to one goroutine
// at a time, like the stream. Scratch grows to the size that the largest product
// needs, and is reused.
type gemm struct {
	isa     isa
	shape   tileShape
	pool    *pool
	blas    *openblas.Library // nil: exact
	packedA [][]float32
	packedB []float32
	narrow  []float32 // the transpose of a C of few columns
	edges   []*edge
	bounds  []int   // of the blocks of rows of the product in progress, in tiles
	blocks  []int   // of each worker's share of the blocks: the first one
	pieces  pieces  // scratch of products of pieces
	p       product // the product in progress: a field, so that it needs no allocation
}

// newGemm returns the gemm of a stream that computes on the threads of p. blas is
// nil for exact products.
func newGemm(i isa, p *pool, blas *openblas.Library) *gemm {
	g := &gemm{isa: i, shape: shapeOf(i), pool: p, blas: blas}
	g.packedA = make([][]float32, p.threads)
	g.edges = make([]*edge, p.threads)
	return g
}

// growA makes room for packed rows of A in the scratch of worker. A stream without products
// needs none. A tile of tail rows may read past the last row, up to the end of its strip.
func (g *gemm) growA(worker, rows int) {
	s := g.shape
	strips := (rows + s.mr - 1) / s.mr
	if floats := strips * s.strip * (s.kc + s.strip); len(g.packedA[worker]) < floats {
		g.packedA[worker] = make([]float32, floats)
	}
}

// edgeOf returns the edge of worker.
func (g *gemm) edgeOf(worker int) *edge {
	if g.edges[worker] == nil {
		g.edges[worker] = new(edge)
	}
	return g.edges[worker]
}

func (g *gemm) growB(floats int) {
	if len(g.packedB) < floats {
		g.packedB = make([]float32, floats)
	}
}

// byRow and byColumn view m and its transpose as operands.
func byRow(m Matrix) operand    { return operand{m.Buf.ptr, uintptr(4 * m.Stride), 4, false} }
func byColumn(m Matrix) operand { return operand{m.Buf.ptr, 4, uintptr(4 * m.Stride), true} }

// linearOutput computes y (m, n) = act(x (m, k) wᵀ + b), w (n, k), b n floats or empty.
func (g *gemm) linearOutput(y, x, w Matrix, b Buffer, act Activation) {
	if x.Rows != y.Rows || w.Rows != y.Cols || w.Cols != x.Cols || (b.bytes > 0 && b.Floats() < y.Cols) {
		panic(fmt.Sprintf("kernels: Linear of y (%d, %d), x (%d, %d), w (%d, %d), %d biases",
			y.Rows, y.Cols, x.Rows, x.Cols, w.Rows, w.Cols, b.Floats()))
	}
	p := product{g: g, m: y.Rows, n: y.Cols, k: x.Cols, a: byRow(x), b: byColumn(w), c: byRow(y)}
	if b.bytes > 0 {
		p.bias = b.ptr
	}
	if act == ReLU {
		p.relu = 1
	}
	g.runProduct(p)
}

// gradInput computes dx (m, k) = dy (m, n) w (n, k). If gate is not empty, dx is +0.0
// at elements whose gate is not > 0.
func (g *gemm) gradInput(dx, dy, w, gate Matrix) {
	gated := gate.Buf.bytes > 0
	if dx.Rows != dy.Rows || w.Rows != dy.Cols || w.Cols != dx.Cols || (gated && (gate.Rows != dx.Rows || gate.Cols != dx.Cols)) {
		panic(fmt.Sprintf("kernels: LinearGradInput of dx (%d, %d), dy (%d, %d), w (%d, %d), gate (%d, %d)",
			dx.Rows, dx.Cols, dy.Rows, dy.Cols, w.Rows, w.Cols, gate.Rows, gate.Cols))
	}
	p := product{g: g, m: dx.Rows, n: dx.Cols, k: dy.Cols, a: byRow(dy), b: byRow(w), c: byRow(dx)}
	if gated {
		p.gate = byRow(gate)
	}
	g.runProduct(p)
}

// gradWeight computes dw (n, k) = dyᵀ x, dy (m, n), x (m, k), and, where db is not
// empty, db = column sums of dy: chains of float32 additions in row order that
// start at +0.0.
func (g *gemm) gradWeight(dw Matrix, db Buffer, dy, x Matrix) {
	if dw.Rows != dy.Cols || dw.Cols != x.Cols || dy.Rows != x.Rows || (db.bytes > 0 && db.Floats() < dy.Cols) {
		panic(fmt.Sprintf("kernels: LinearGradWeight of dw (%d, %d), dy (%d, %d), x (%d, %d), %d biases",
			dw.Rows, dw.Cols, dy.Rows, dy.Cols, x.Rows, x.Cols, db.Floats()))
	}
	p := product{g: g, m: dw.Rows, n: dw.Cols, k: dy.Rows, a: byColumn(dy), b: byRow(x), c: byRow(dw)}
	if db.bytes > 0 {
		p.sum = db.ptr
	}
	g.runProduct(p)
}

// runProduct runs p.
func (g *gemm) runProduct(p product) {
	g.p = p
	switch {
	case p.m == 0 || p.n == 0:
		if p.sum != nil {
			g.p.runSums()
		}
	case g.pieces.of && p.k > 0:
		g.p.runPieces()
	case g.blas != nil && p.k > 0:
		g.p.runBLAS()
	default:
		g.p.runPanels()
	}
	g.p = product{}
}
