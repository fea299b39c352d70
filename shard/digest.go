package shard

import (
	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/kernels"
)

// Digest is the sum of the hashes of all rows whose bytes, weights and state, differ from
// their init. It does not depend on the owners of rows, nor on which rows were touched.
func (h *Shard) Digest() (digest.Sum, error) {
	d := NewDigester(h.o)
	stride := h.RowBytes()
	chunk := make([]byte, digestRows*stride)
	for at := 0; ; {
		slots, next, err := h.readTouched(chunk, at, h.touched)
		if err != nil || len(slots) == 0 {
			return d.Sum, err
		}
		for i, slot := range slots {
			d.Add(h.o.Map.Global(h.o.Owner, int64(slot)), chunk[i*stride:(i+1)*stride])
		}
		at = next
	}
}

// Export copies the weights of n rows, starting at slot, to dst (n*width floats on the
// host). Rows may be untouched.
func (h *Shard) Export(dst []float32, slot int64, n int) error {
	width, stride := h.o.Width, h.RowBytes()
	direct := h.rows.Buf.OnHost() && h.frames == nil
	var touched []int32 // slots that a GPU gathers, or of frames
	var to [][]byte     // the destinations of their rows
	for i := range n {
		row, at := dst[i*width:(i+1)*width], int32(slot)+int32(i)
		switch {
		case !isSet(h.touched, at):
			h.init.Row(row, h.o.Map.Global(h.o.Owner, int64(at)))
		case direct:
			h.s.Download(kernels.BytesOf(row), h.rows.RowRange(int(at), 1).Columns(0, width).Buf)
		default:
			touched, to = append(touched, at), append(to, kernels.BytesOf(row))
		}
	}
	rows := make([]byte, min(len(touched), digestRows)*stride)
	for len(touched) > 0 {
		most := min(len(touched), digestRows)
		if err := h.ReadBytes(rows[:most*stride], touched[:most]); err != nil {
			return err
		}
		for i, row := range to[:most] {
			copy(row, rows[i*stride:])
		}
		touched, to = touched[most:], to[most:]
	}
	return h.s.Sync()
}
