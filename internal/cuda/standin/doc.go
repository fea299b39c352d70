// Package standin builds stand-ins for NVIDIA's libcuda, NVRTC, cuBLAS, NCCL and NVML that run
// kernels on the CPU, so that all of the CUDA backend but the GPU itself is tested where there is none: the
// kernels' arithmetic, how they are launched, and what waits for what. It is for tests.
//
// Kernels are compiled as C++ against cpp/shim.h. Threads of a block are fibers that take
// turns between barriers; a barrier that only some of them reach ends the kernel with an
// error. Streams put their work off until somebody waits, as late as CUDA may
// (cpp/driver.cpp): who reads results too early, or frees or changes what is still to be
// read, gets other bits than on the CPU. Memory is filled with NaNs when it is taken.
//
// It never stands for a GPU's speed, its memory model between blocks, or NVIDIA's compiler.
package standin
