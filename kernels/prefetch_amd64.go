package kernels

import "unsafe"

// Prefetch prefetches the cache lines of memory[at[i]], without waiting for them.
func Prefetch[T uint32 | uint64](memory []T, at []int32) {
	if len(at) == 0 {
		return
	}
	first := unsafe.Pointer(&memory[0])
	if unsafe.Sizeof(memory[0]) == 4 {
		prefetch4((*uint32)(first), &at[0], len(at))
	} else {
		prefetch8((*uint64)(first), &at[0], len(at))
	}
}

// PrefetchBits prefetches the words of bits of memory, bit 64*w + i in word w.
func PrefetchBits(memory []uint64, at []int32) {
	if len(at) > 0 {
		prefetchBits(&memory[0], &at[0], len(at))
	}
}

//go:noescape
func prefetchBits(memory *uint64, at *int32, n int)

//go:noescape
func prefetch4(memory *uint32, at *int32, n int)

//go:noescape
func prefetch8(memory *uint64, at *int32, n int)

//go:noescape
func prefetchBytes(from unsafe.Pointer, n int)

// prefetchFloats prefetches the cache lines of some floats.
func prefetchFloats(v []float32) {
	if len(v) > 0 {
		prefetchBytes(unsafe.Pointer(&v[0]), 4*len(v))
	}
}
