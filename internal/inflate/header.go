package inflate

import (
	"compress/gzip"
	"hash/crc32"
	"io"
)

// Flags of a header.
const (
	hasSum = 1 << (iota + 1)
	hasExtra
	hasName
	hasComment
	unknownFlags = 7 << 5
)

// maxNameBytes is the limit on a name and a comment, as in compress/gzip.
const maxNameBytes = 512

// readHeader reads the header of a member. At the end of the file it returns io.EOF.
func (z *Reader) readHeader() error {
	if err := z.fetch(1); err != nil {
		return err
	}
	if z.at == z.end && !z.first {
		return io.EOF
	}
	z.first = false
	h := &header{z: z}
	fixed := h.take(10)
	if h.err == nil && (fixed[0] != 0x1f || fixed[1] != 0x8b || fixed[2] != 8) {
		return gzip.ErrHeader
	}
	flags := byte(0)
	if h.err == nil {
		flags = fixed[3]
	}
	if flags&hasExtra != 0 {
		if size := h.take(2); h.err == nil {
			h.take(int(size[0]) | int(size[1])<<8)
		}
	}
	if flags&hasName != 0 {
		h.skipText()
	}
	if flags&hasComment != 0 {
		h.skipText()
	}
	if flags&hasSum != 0 {
		sum := uint16(h.sum)
		if b := h.take(2); h.err == nil && uint16(b[0])|uint16(b[1])<<8 != sum {
			return gzip.ErrHeader
		}
	}
	if h.err == nil && flags&unknownFlags != 0 {
		return gzip.ErrHeader
	}
	z.state, z.from = atBlock, z.InputBytes()
	return h.err
}

// header reads the fields of a header.
type header struct {
	z    *Reader
	sum  uint32 // CRC-32 of its bytes
	size [2 + 8]byte
	err  error // of the first field that cannot be read
}

// take reads n bytes, and returns those of a short field.
func (h *header) take(n int) []byte {
	for i := 0; i < n && h.err == nil; i++ {
		h.takeByte(i)
	}
	return h.size[:min(n, len(h.size))]
}

// skipText reads a text that ends with a zero.
func (h *header) skipText() {
	for i := 0; h.err == nil; i++ {
		if i == maxNameBytes {
			h.err = gzip.ErrHeader
		} else if h.takeByte(0); h.size[0] == 0 {
			return
		}
	}
}

// takeByte reads byte i of a field.
func (h *header) takeByte(i int) {
	b, err := h.z.takeByte()
	if err != nil {
		h.err = err
		return
	}
	h.sum = crc32.Update(h.sum, crc32.IEEETable, []byte{b})
	if i < len(h.size) {
		h.size[i] = b
	}
}
