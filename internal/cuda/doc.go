// Package cuda opens NVIDIA's driver and its run-time compiler where a machine has them,
// and calls the few functions of them that kernels needs. It is an edge: it knows
// contexts, memory, streams and launches, and no kernel.
//
// Nothing is linked: libcuda.so.1 and libnvrtc.so.12 or .13 are opened when asked for, so
// that one binary runs with and without them. ECREC_CUDA_PATH names folders (colons
// between) that are looked in first; the compiler is also looked for in CUDA's usual
// folders and in those of NVIDIA's Python wheels.
//
// # Threads
//
// Every crossing sets the context of the thread that it runs on, which costs some
// nanoseconds where it is set already: goroutines may move from thread to thread, and
// nothing is handed to a thread of its own, which would cost 15 us a call (FACTS.md).
// A Stream belongs to one goroutine at a time, a Context to any number.
//
// # Names
//
// Functions whose meaning has changed are asked for under their versioned names
// (cuMemAlloc_v2): those are alike in CUDA 12 and 13.
package cuda
