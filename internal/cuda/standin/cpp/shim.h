// CUDA C for a C++ compiler: the threads of a block are fibers that take turns, all of them must
// reach a barrier, and shared memory is ordinary memory.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define DYNAMIC_SHARED(name) static float4 name[(64 << 10) / sizeof(float4)]

struct Dim {
	unsigned x, y, z;
};
extern Dim threadIdx, blockIdx, blockDim, gridDim;

struct alignas(8) float2 {
	float x, y;
};
struct alignas(16) float4 {
	float x, y, z, w;
};
struct alignas(16) uint4 {
	unsigned x, y, z, w;
};
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static inline float __fsqrt_rn(float x) { return std::sqrt(x); }
static inline int __float2int_rn(float x) {
	return std::isnan(x) ? 0 : x >= 2147483648.0f ? INT32_MAX : x < -2147483648.0f ? INT32_MIN : (int)std::nearbyint(x);
}
// __byte_perm picks four of the eight bytes of (y, x), by the low bits of each digit of s.
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
	const uint64_t bytes = (uint64_t)y << 32 | x;
	unsigned to = 0;
	for (int i = 0; i < 4; i++)
		to |= (unsigned)(bytes >> 8 * (s >> 4 * i & 7) & 0xff) << 8 * i;
	return to;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }

template <typename To, typename From> static inline To bitsAs(From x) {
	static_assert(sizeof(To) == sizeof(From), "bits of another length");
	To y;
	std::memcpy(&y, &x, sizeof y);
	return y;
}
static inline unsigned __float_as_uint(float x) { return bitsAs<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return bitsAs<float>(x); }
static inline double __longlong_as_double(long long x) { return bitsAs<double>(x); }

static inline int atomicAdd(int *p, int n) { // fibers take turns
	int old = *p;
	*p += n;
	return old;
}

// barrier is __syncthreads, warpBarrier __syncwarp.
void barrier();
void warpBarrier();
#define __syncthreads() barrier()
#define __syncwarp() warpBarrier()

// runBlocks runs a kernel in a grid of blocks of (x, y) threads. It returns NULL or an error.
const char *runBlocks(void (*kernel)(const void *), const void *params, unsigned blocks, unsigned x, unsigned y);

// kernels are the kernels compiled in.
struct Kernel {
	const char *name;
	void (*run)(const void *);
	size_t params;
};
extern const Kernel kernels[];
extern const int kernelCount;
extern const char *const sourceHash;
