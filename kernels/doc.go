// Package kernels hides where memory lives and what computes: a Device
// allocates Buffers, a Stream runs operations on them in order. The CPU backend
// is here; a CUDA backend implements the same two interfaces.
//
// # Terms
//
// A Buffer is a span of a device's memory. A Matrix is a row-major float32 view
// of one: element (i, j) is float i*Stride + j. Index buffers hold int32.
// A Stream belongs to one goroutine at a time; its operations take effect in
// order. On the CPU they are done when the call returns; on a device they are
// done after Sync. Operands of one call never overlap unless its doc says so.
//
// # Arithmetic (DESIGN.md section 8)
//
// Every operation has one defined result, bit for bit, whatever the number of
// threads, the vector width and the tile sizes:
//
//   - A matrix product's element is one chain of fused multiply-adds over k
//     ascending that starts at +0.0. What follows (bias, activation, gate) is
//     separate float32 operations on the finished chain.
//   - Column sums (bias gradients) and segment sums (row gradients) are chains of
//     float32 additions in row order that start at +0.0.
//   - A sum within a row (mean of squares) runs in 8 lanes: lane l adds the
//     elements k with k mod 8 = l, ascending, each starting at +0.0; then
//     ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)).
//   - Threads split outputs, never a sum.
//   - Every other operation is element by element: float32 add, mul, div and sqrt
//     as IEEE 754 rounds them, fused only where the doc says FMA.
//
// Every fast body has a plain Go twin of the same name and result; the two are
// chosen at start by CPU feature (avx512, avx2, plain; ECREC_CPU=plain|avx2|avx512
// caps the choice) and share one table test that compares bits.
//
// # Never
//
// No operation allocates Go memory in its steady state, keeps a reference to a
// caller's Buffer after Sync, or reads a clock.
package kernels
