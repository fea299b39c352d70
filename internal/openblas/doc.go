// Package openblas opens OpenBLAS at run time and multiplies float32 matrices
// with it. It is an edge: the only cgo of the CPU backend, and an option. Its sums
// run in an order that depends on the CPU model and the number of threads, so
// results are not exact across machines (DESIGN.md section 8).
//
// It never links OpenBLAS: one binary runs with and without it.
package openblas

// Op says how an operand lies in memory.
type Op int

// Plain operands are row-major as they are, Transposed ones the transpose of what
// is stored row-major.
const (
	Plain      Op = 111 // CblasNoTrans
	Transposed Op = 112 // CblasTrans
)
