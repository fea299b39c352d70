package kernels

import (
	"slices"
	"testing"
)

// Prefetch changes no memory, for any part of it.
func TestPrefetch(t *testing.T) {
	testPrefetch[uint32](t)
	testPrefetch[uint64](t)
}

func TestPrefetchBits(t *testing.T) {
	memory := []uint64{1, 2, 3}
	for _, at := range [][]int32{nil, {0}, {191, 0, 64, 127}} {
		PrefetchBits(memory, at)
	}
	PrefetchBits(nil, nil)
	if !slices.Equal(memory, []uint64{1, 2, 3}) {
		t.Fatal(memory)
	}
}

func testPrefetch[T uint32 | uint64](t *testing.T) {
	memory := []T{1, 2, 3}
	for _, at := range [][]int32{nil, {0}, {2, 0, 1, 1}} {
		Prefetch(memory, at)
	}
	Prefetch[T](nil, nil)
	if !slices.Equal(memory, []T{1, 2, 3}) {
		t.Fatal(memory)
	}
}
