package data

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/format"
)

// checkDeltas returns an error if a page in a delta encoding names more than n values, since a decoder allocates memory for them
// before it reads them.
func checkDeltas(e format.Encoding, page []byte, n int) (err error) {
	switch e {
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		_, err = skipDeltas(page, n)
	case format.DeltaByteArray: // the lengths of the prefixes, then those of the suffixes
		if page, err = skipDeltas(page, n); err == nil {
			_, err = skipDeltas(page, n)
		}
	}
	return err
}

// skipDeltas returns the bytes after at most n integers in the encoding DELTA_BINARY_PACKED: a header, and blocks of miniblocks
// that each have a width in bits.
func skipDeltas(b []byte, n int) (rest []byte, err error) {
	const largest = 1 << 20 // of a block; writers take 128 or some more
	var header [4]uint64    // values in a block, miniblocks in it, values in all, the first value
	for i := range header {
		if header[i], b, err = cutVarint(b); err != nil {
			return nil, err
		}
	}
	block, parts, left := header[0], header[1], header[2]
	if left > uint64(n) {
		return nil, fmt.Errorf("a page of %d values names %d", n, left)
	}
	if parts == 0 || parts > block || block > largest {
		return nil, fmt.Errorf("blocks of %d values have %d parts", block, parts)
	}
	for left = max(left, 1) - 1; left > 0; {
		if _, b, err = cutVarint(b); err != nil { // the least difference
			return nil, err
		}
		if parts > uint64(len(b)) {
			return nil, io.ErrUnexpectedEOF
		}
		widths := b[:parts]
		b = b[parts:]
		for _, width := range widths {
			size := block / parts * uint64(width) / 8
			b = b[min(size, uint64(len(b))):]
			if left -= min(block/parts, left); left == 0 {
				break
			}
		}
	}
	return b, nil
}

// cutVarint takes a number of variable length from b.
func cutVarint(b []byte) (x uint64, rest []byte, err error) {
	x, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return x, b[n:], nil
}
