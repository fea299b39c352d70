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
	err := h.eachTouched(digestRows, func(first, n int) error {
		rows := chunk[:n*stride]
		h.s.Download(rows, h.rows.RowRange(first, n).Buf)
		if err := h.s.Sync(); err != nil {
			return err
		}
		for i := range n {
			g := h.o.Map.Global(h.o.Owner, int64(first+i))
			h.init.Row(h.draw, g)
			copy(init, kernels.BytesOf(h.draw))
			if row := rows[i*stride : (i+1)*stride]; !bytes.Equal(row, init) {
				var key [8]byte
				binary.LittleEndian.PutUint64(key[:], uint64(g))
				sum.Add(digest.Of("row", key[:], row))
			}
		}
		return nil
	})
	return sum, err
}

// eachTouched visits the touched rows in runs of at most limit neighbours; the
// memory of untouched ones is never read.
func (h *Shard) eachTouched(limit int, f func(first, n int) error) error {
	for at := 0; at < h.rows.Rows; {
		if word := h.touched[at>>6] >> (at & 63); word == 0 {
			at = (at>>6 + 1) << 6
			continue
		} else if skip := bits.TrailingZeros64(word); skip > 0 {
			at += skip
		}
		n := 1
		for n < limit && at+n < h.rows.Rows && h.isTouched(int32(at+n)) {
			n++
		}
		if err := f(at, n); err != nil {
			return err
		}
		at += n
	}
	return nil
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
