package kernels

// Prefetch prefetches the cache lines of memory[at[i]], without waiting for them.
func Prefetch(memory []uint64, at []int32) {
	if len(at) > 0 {
		prefetch(&memory[0], &at[0], len(at))
	}
}

//go:noescape
func prefetch(memory *uint64, at *int32, n int)
