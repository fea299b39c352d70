//go:build !amd64

package kernels

// Prefetch prefetches the cache lines of memory[at[i]], without waiting for them.
func Prefetch[T uint32 | uint64](memory []T, at []int32) {}

// PrefetchBits prefetches the words of bits of memory.
func PrefetchBits(memory []uint64, at []int32) {}

// prefetchFloats prefetches the cache lines of some floats.
func prefetchFloats([]float32) {}
