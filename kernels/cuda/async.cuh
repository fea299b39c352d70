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
