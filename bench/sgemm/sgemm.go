package sgemm

// Product is C (m, n) = A (m, k) B (k, n) in float32. Each matrix is stored row by row, or by columns if it is Transposed; a row,
// or a column, begins LD floats after the one before.
type Product struct {
	M, N, K int
	A, B, C Operand
}

// Operand is a matrix of a product.
type Operand struct {
	Floats     []float32
	LD         int
	Transposed bool // never C
}
