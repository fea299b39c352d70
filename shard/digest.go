package shard

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/kernels"
)

// digestRows is how many rows are copied to the host at a time.
const digestRows = 1024

// Digest sums the hashes of the rows whose bytes, weights and state, differ from
// their init. It does not depend on where rows live nor on which were touched.
func (h *Shard) Digest() (digest.Sum, error) {
	var sum digest.Sum
	stride := 4 * h.rows.Stride
	chunk := make([]byte, digestRows*stride)
	init := make([]byte, stride) // state starts as zeros
	for first := 0; first < h.rows.Rows; first += digestRows {
		n := min(digestRows, h.rows.Rows-first)
		if !h.anyTouched(first, n) {
			continue
		}
		h.s.Download(chunk[:n*stride], h.rows.RowRange(first, n).Buf)
		if err := h.s.Sync(); err != nil {
			return sum, err
		}
		for i := range n {
			if !h.isTouched(int32(first + i)) {
				continue
			}
			g := h.o.Map.Global(h.o.Owner, int64(first+i))
			h.init.Row(h.draw, g)
			copy(init, kernels.BytesOf(h.draw))
			if row := chunk[i*stride : (i+1)*stride]; !bytes.Equal(row, init) {
				var key [8]byte
				binary.LittleEndian.PutUint64(key[:], uint64(g))
				sum.Add(digest.Of("row", key[:], row))
			}
		}
	}
	return sum, nil
}

// anyTouched reports whether one of the n slots from first on is touched; first
// and digestRows are multiples of 64.
func (h *Shard) anyTouched(first, n int) bool {
	var any uint64
	for w := first / 64; w < (first+n+63)/64; w++ {
		any |= h.touched[w]
	}
	return bits.OnesCount64(any) > 0
}

// Export copies the weights of the n rows from slot on to dst (n*width floats on
// the host), touched or not.
func (h *Shard) Export(dst []float32, slot int64, n int) error {
	width := h.o.Width
	src := h.rows.RowRange(int(slot), n)
	for i := range n {
		row := dst[i*width : (i+1)*width]
		if h.isTouched(int32(slot) + int32(i)) {
			h.s.Download(kernels.BytesOf(row), src.RowRange(i, 1).Columns(0, width).Buf)
		} else {
			h.init.Row(row, h.o.Map.Global(h.o.Owner, slot+int64(i)))
		}
	}
	return h.s.Sync()
}
