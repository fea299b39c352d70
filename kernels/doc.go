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
