package directio

import "unsafe"

const (
	// BlockBytes is the length of a block. Larger blocks were slower: they leave the
	// processor's cache between filling and writing.
	BlockBytes = 1 << 20
	// Blocks is the number of blocks of a Reader or Writer.
	Blocks = 3
	// align is the alignment of memory, offsets and lengths for O_DIRECT. No disk needs
	// more.
	align = 4096
)

// Aligned returns n bytes that begin at a multiple of align.
func Aligned(n int) []byte {
	b := make([]byte, n+align)
	off := int(-uintptr(unsafe.Pointer(&b[0])) & (align - 1))
	return b[off : off+n : off+n]
}

func roundUp(n int) int { return (n + align - 1) &^ (align - 1) }
