// Package sgemm opens libraries of matrix products at run time, to compare the program's own products with theirs. It serves
// benchmarks alone: nothing that trains uses it.
//
// # Libraries
//
// A library is a shared object with one of these interfaces, which Open looks for in this order:
//
//   - oneDNN 3: its matmul primitive, on operands as they lie in memory. A primitive is made once for each shape.
//   - MKL: cblas_sgemm, with MKL_Set_Num_Threads.
//   - OpenBLAS: cblas_sgemm, with 32-bit sizes, or with the 64-bit sizes and names of the one in NumPy's and SciPy's wheels.
//
// OpenMP keeps a number of threads, and the threads themselves, for each thread that calls it. So callers stay on one thread
// (runtime.LockOSThread).
//
// # Never
//
// Nothing is linked: without the libraries the program runs as before.
package sgemm
