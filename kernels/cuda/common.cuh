// Declarations that all kernels share. The sources of this folder are one translation unit.
// NVRTC compiles them for the card of the machine. For tests on a CPU, a C++ compiler
// compiles them with a shim for threads and barriers.
//
// Arithmetic is that of package kernels' doc, bit for bit: --fmad=false keeps the compiler
// from fusing, and chain() is the one place where an FMA is meant. Threads split outputs,
// never a sum.
//
// Each kernel takes one struct, which cuda_params.go mirrors field by field, and strides
// over its work, so that any grid is correct. Sizes are in floats unless noted.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define KERNEL extern "C" __global__ void

// Mat is a matrix: element (i, j) is float i*stride + j of p.
struct Mat {
	float *p;
	i64 stride;
};

// chain is the next link of a chain of fused multiply-adds.
__device__ __forceinline__ float chain(float a, float b, float sum) { return __fmaf_rn(a, b, sum); }

// Operands that hold indexes, for faults.
enum { INDEX = 1, SLOTS = 2, POS = 3, START = 4, FIRST = 5, SECOND = 6, RULE = 7 };

// outside reports whether index x is outside [0, limit). If so it stores a fault, and the
// stream's next Sync panics. A fault is a single store; of several faults, any may remain.
__device__ __forceinline__ bool outside(u64 *fault, int op, int operand, int x, i64 limit) {
	if ((i64)(u32)x < limit)
		return false;
	*(volatile u64 *)fault = (u64)op << 40 | (u64)operand << 32 | (u32)x;
	return true;
}

// Divisor divides numbers below 2^31 by a number greater than 1, with a multiplication
// (Granlund and Montgomery, "Division by Invariant Integers using Multiplication", 1994).
struct Divisor {
	u32 magic, shift;
};

__device__ __forceinline__ u32 quotient(u32 x, const Divisor &d) { return __umulhi(x, d.magic) >> d.shift; }

// A group of blockDim.x threads works on a row: its threads take the columns round-robin. A
// block has blockDim.y groups. A group is a warp or a part of one.
__device__ __forceinline__ i64 firstRow() { return (i64)blockIdx.x * blockDim.y + threadIdx.y; }
__device__ __forceinline__ i64 rowStep() { return (i64)gridDim.x * blockDim.y; }

// One thread for each element.
__device__ __forceinline__ i64 firstItem() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ i64 itemStep() { return (i64)gridDim.x * blockDim.x; }

__device__ __forceinline__ float4 add4(float4 a, float4 b) {
	return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// The launch sets the length of sharedMemory.
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ float4 name[]
#endif
DYNAMIC_SHARED(sharedMemory);

// Copies from global to shared memory, which a card of sm_80 or newer does beside the threads'
// work; others copy at once. A thread's copies since its last commitCopies form a group.
// waitCopies returns when all of the thread's groups but the last LATER are in shared memory.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ void copyFloat(float *to, const float *from) {
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
// copyFloats copies n <= 4 floats of an aligned group of four, and zeros the others.
__device__ __forceinline__ void copyFloats(float *to, const float *from, int n) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from), "r"(4 * n) : "memory");
}
__device__ __forceinline__ void commitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LATER> __device__ __forceinline__ void waitCopies() { asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory"); }
#else
__device__ __forceinline__ void copyFloat(float *to, const float *from) { *to = *from; }
__device__ __forceinline__ void copyFloats(float *to, const float *from, int n) {
	for (int i = 0; i < n; i++)
		to[i] = from[i];
}
__device__ __forceinline__ void commitCopies() {}
template <int LATER> __device__ __forceinline__ void waitCopies() {}
#endif
