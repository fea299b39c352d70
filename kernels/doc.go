// Package kernels hides the place of memory and the processor: a Device allocates
// Buffers, a Stream runs operations on them in order. The package has a CPU backend
// and a CUDA backend of the same two interfaces.
//
// # Terms
//
// A Buffer is a span of a device's memory. A Matrix is a row-major float32 view
// of one: element (i, j) is float i*Stride + j. Index buffers hold int32.
// A Stream belongs to one goroutine at a time; its operations take effect in
// order. On the CPU they are done when the call returns; on a device they are
// done after Sync. Operands of one call never overlap, except where its doc allows
// it.
//
// # Arithmetic
//
// Every operation has one defined result, bit for bit, for any number of threads,
// vector width and tile size:
//
//   - A matrix product's element is one chain of fused multiply-adds over k
//     ascending that starts at +0.0. Bias, activation and gate are separate
//     float32 operations on the finished chain.
//   - With BLAS "exact-tc" a product is of pieces instead: see below.
//   - Column sums (bias gradients, batch norm) and segment sums (row gradients) are
//     chains of float32 additions in row order that start at +0.0. So are the sums over
//     vectors and columns of a factorization machine.
//   - A sum within a row (mean of squares) runs in 8 lanes: lane l adds the
//     elements k with k mod 8 = l, ascending, each starting at +0.0; then
//     ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)).
//   - Threads split outputs, never a sum.
//   - Every other operation is element by element: float32 add, mul, div and sqrt
//     as IEEE 754 rounds them, fused only in operations documented as FMA.
//
// Every assembly loop has a plain Go reference of the same name and result. The CPU's
// features choose between them at start: avx512, avx2 or plain. ECREC_CPU=plain, avx2
// or avx512 caps the choice. One table test compares the bits of all of them.
//
// # Products of pieces
//
// BLAS "exact-tc" defines another result of the three matrix products, which integer units
// (a GPU's tensor cores) compute exactly, in any order and with the same bits everywhere:
//
//   - The k links of an element are cut into pieces of 1,024, the last one shorter.
//   - Each row of A and each column of B has a scale in each piece: the greatest power of two,
//     at most 2^149, with which its greatest magnitude there stays below 127 * 2^16. Its
//     elements times the scale are rounded to the nearest integers, ties to even.
//   - A piece's value is the sum of the products of these integers, exact, rounded once to
//     float32, times the reciprocals of both scales, the smaller one first.
//   - The element is the float32 sum of its pieces, from the first on. A product without
//     links is +0.0.
//   - A row of A or a column of B with a NaN or an infinity in a piece makes all its elements
//     NaN.
//
// The rounding to integers is relative to the greatest magnitudes of a row and a column, by up to
// 2^-22 of them, and not to each link. Bias, activation, gate and column sums are as above.
//
// # Work on threads
//
// A pool splits an operation into parts, each done by one thread. A tile is a
// rectangle of a matrix product that one call of a micro-kernel computes. A chunk is
// a range of the rows of a product's right operand, packed at a time.
//
// # Never
//
// No operation allocates Go memory in its steady state, keeps a reference to a
// caller's Buffer after Sync, or reads a clock.
package kernels
