package inflate

import (
	"encoding/binary"
	"io"
)

// headBytes is more than the header of a block takes.
const headBytes = 1024

// beginBlock reads the header of a block.
func (z *Reader) beginBlock() error {
	if err := z.fetch(headBytes); err != nil {
		return err
	}
	z.final = z.take(1) == 1
	z.state = inBlock
	switch z.take(2) {
	case 0:
		return z.beginStored()
	case 1:
		z.codes = fixedCodes()
		return nil
	case 2:
		z.codes = &z.dynamic
		return z.readCodes()
	}
	return z.corrupt()
}

// endBlock goes to the next block or to the trailer.
func (z *Reader) endBlock() error {
	if !z.final {
		z.state = atBlock
		return nil
	}
	z.state = atTrailer
	return z.dropBits()
}

// take returns the next n bits, up to 32. Behind the end of the input they are zeros.
func (z *Reader) take(n uint) uint32 {
	if z.at+8 <= z.end+padBytes {
		z.bits |= binary.LittleEndian.Uint64(z.in[z.at:]) << z.bitCount
	}
	z.at += int(63-z.bitCount) >> 3
	z.bitCount |= 56
	x := uint32(z.bits & (1<<n - 1))
	z.bits >>= n
	z.bitCount -= n
	return x
}

// beginStored reads the header of a stored block.
func (z *Reader) beginStored() error {
	z.take(z.bitCount & 7) // up to the next byte
	size, inverse := z.take(16), z.take(16)
	if size != inverse^0xFFFF {
		return z.corrupt()
	}
	z.state, z.stored = inStored, int(size)
	return z.dropBits()
}

// copyStored copies bytes of a stored block to b[n:]. It returns the end of the text.
func (z *Reader) copyStored(b []byte, n int) (int, error) {
	if z.stored == 0 {
		return n, z.endBlock()
	}
	if err := z.fetch(1); err != nil {
		return n, err
	}
	if z.at == z.end {
		return n, io.ErrUnexpectedEOF
	}
	k := copy(b[n:], z.in[z.at:min(z.at+z.stored, z.end)])
	z.at += k
	z.stored -= k
	return n + k, nil
}

// sizeOrder is the order of the sizes of the codes for sizes.
var sizeOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// sizeBits is the largest size of a code for sizes.
const sizeBits = 7

// sizeEntries are the meanings of the codes for sizes.
var sizeEntries = func() (all [len(sizeOrder)]uint32) {
	for i := range all {
		all[i] = uint32(i)<<valueShift | isLiteral
	}
	return all
}()

// readCodes reads the codes of a dynamic block, RFC 1951, section 3.2.7.
func (z *Reader) readCodes() error {
	literals, distances, n := int(z.take(5))+257, int(z.take(5))+1, int(z.take(4))+4
	if literals > 286 || distances > 30 {
		return z.corrupt()
	}
	var sizeSizes [len(sizeOrder)]uint8
	for _, i := range sizeOrder[:n] {
		sizeSizes[i] = uint8(z.take(3))
	}
	var table [1 << sizeBits]uint32
	if !buildTable(table[:], sizeBits, sizeSizes[:], sizeEntries[:]) {
		return z.corrupt()
	}
	var sizes [literalCodes + distanceCodes]uint8
	for i := 0; i < literals+distances; {
		z.take(0)
		entry := table[z.bits&(1<<sizeBits-1)]
		if entry == 0 {
			return z.corrupt()
		}
		z.take(uint(entry & takenMask))
		size, repeat := uint8(entry>>valueShift), 1
		switch {
		case size == 16 && i == 0:
			return z.corrupt()
		case size == 16:
			size, repeat = sizes[i-1], 3+int(z.take(2))
		case size == 17:
			size, repeat = 0, 3+int(z.take(3))
		case size == 18:
			size, repeat = 0, 11+int(z.take(7))
		}
		if i+repeat > literals+distances {
			return z.corrupt()
		}
		for ; repeat > 0; repeat-- {
			sizes[i] = size
			i++
		}
	}
	if !z.codes.build(sizes[:literals], sizes[literals:literals+distances]) {
		return z.corrupt()
	}
	return nil
}
