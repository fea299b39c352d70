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
// Times are milliseconds, rates per second, sizes bytes; 1 GB is 1e9 bytes, 1
// GFLOP 1e9 operations, a fused multiply-add counts as two.
package bench
