// Package standin builds stand-ins for NVIDIA's libcuda, NVRTC, cuBLAS, NCCL and NVML that run
// kernels on the CPU. On machines without a GPU they test all of the CUDA backend except the GPU
// itself: the kernels' arithmetic, their launches, and the order of operations. It is for tests
// only.
//
// Kernels are compiled as C++ against cpp/shim.h. Threads of a block are fibers that take
// turns between barriers; a barrier that only some of them reach ends the kernel with an
// error. Streams defer their work until a caller waits, as late as CUDA may (cpp/driver.cpp):
// code that reads results too early, or that frees or changes memory with pending reads, gets
// other bits than on the CPU. Allocated memory is filled with NaNs.
//
// It does not model a GPU's speed, its memory model between blocks, or NVIDIA's compiler.
package standin
