// Package openblas opens OpenBLAS at run time and multiplies float32 matrices
// with it. It is an edge to C, the only one of the CPU backend, and an option. Its sums
// run in an order that depends on the CPU model and the number of threads, so
// its results are exact only for one CPU model and number of threads.
//
// It never links OpenBLAS: one binary runs with and without it.
package openblas

// Op is the layout of an operand in memory.
type Op int

// A Plain operand is the matrix that is stored row-major, a Transposed one its transpose.
const (
	Plain      Op = 111 // CblasNoTrans
	Transposed Op = 112 // CblasTrans
)
