package blockcopy

import "unsafe"

const lineBytes = 64

// stream copies src to dst, which has the same length, past the caches.
func stream(dst, src []byte) {
	head := int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst))) % lineBytes)
	copy(dst[:head], src)
	lines := (len(src) - head) &^ (lineBytes - 1)
	streamLines(dst[head:], src[head:head+lines])
	copy(dst[head+lines:], src[head+lines:])
}

// move copies len(src) bytes.
//
//go:noescape
func move(dst, src []byte)

// streamLines copies src, whose length is a multiple of a cache line, to dst, which begins
// at one.
//
//go:noescape
func streamLines(dst, src []byte)
