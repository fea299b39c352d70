// Package bench measures ecrec and reports what it measured: every figure comes
// from a run of this binary and is printed with its machine, command and spread.
//
// # Method
//
// A figure is the median of several repeats, with the least and the greatest
// beside it. What is compared is measured in turn within one run (A B A B ...),
// so that a ratio holds when the machine's speed drifts. Each benchmark also runs
// tiny inside the tests, so that it cannot rot.
//
// # Units
//
// Times are milliseconds, or nanoseconds for one row or sample; rates per second,
// sizes bytes; 1 GB is 1e9 bytes, 1 GFLOP 1e9 operations, a fused multiply-add
// counts as two.
//
// # What kernels are held against
//
// Matrix products: OpenBLAS, opened at run time and named with its build. Rows:
// this machine's own copy in order and its own random reads, one word of each
// cache line of the same rows, because GB/s from another machine prove nothing.
package bench
