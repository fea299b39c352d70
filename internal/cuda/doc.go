// Package cuda opens NVIDIA's driver and libraries if a machine has them, and calls the few
// functions that packages kernels and collectives need. It is an edge to C: it has contexts,
// memory, streams and launches, and no kernels.
//
// Nothing is linked: libcuda.so.1 and libnvrtc.so.12 or .13 are opened on demand, so that
// one binary runs with and without them. ECREC_CUDA_PATH names folders, separated by colons,
// that are searched first. Libraries other than the driver are also searched in CUDA's usual
// folders and in those of NVIDIA's Python wheels.
//
// # Threads
//
// Goroutines move from thread to thread, so every call into C first sets the context of its
// thread. This costs some nanoseconds if it is already set. Handing calls to a thread of
// their own would cost 15 us each. A Stream belongs to one goroutine at a time, a Context to
// any number.
//
// # Names
//
// Functions whose meaning has changed are looked up by their versioned names
// (cuMemAlloc_v2), which mean the same in CUDA 12 and 13.
package cuda
