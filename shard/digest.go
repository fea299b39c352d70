package shard

import (
	"slices"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/kernels"
)

// Digest is the sum of the hashes of all rows whose bytes, weights and state, differ from
// their init. It does not depend on the owners of rows, nor on which rows were touched.
func (h *Shard) Digest() (digest.Sum, error) {
	d := NewDigester(h.o)
	if h.frames != nil {
		err := addRowsBelow(d, h)
		return d.Sum, err
	}
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

// sortedRows is how many rows that are not in memory are read in the order of their places.
const sortedRows = 1 << 20

// addRowsBelow adds all rows of a shard to a digest, some of which are below.
func addRowsBelow(d *Digester, h *Shard) error {
	stride := h.RowBytes()
	rows, slots := make([]byte, digestRows*stride), make([]int32, 0, min(sortedRows, h.count))
	for at := 0; ; {
		slots = slots[:0]
		for len(slots) < cap(slots) {
			first, n := nextRun(h.touched, at, cap(slots)-len(slots))
			if n == 0 {
				break
			}
			for at = first; at < first+n; at++ {
				slots = append(slots, int32(at))
			}
		}
		if len(slots) == 0 {
			return nil
		}
		h.frames.below.Sort(slots)
		for some := range slices.Chunk(slots, digestRows) {
			if err := h.frames.copyOut(h.s, rows[:len(some)*stride], some); err != nil {
				return err
			}
			for i, slot := range some {
				d.Add(h.o.Map.Global(h.o.Owner, int64(slot)), rows[i*stride:(i+1)*stride])
			}
		}
	}
}

// Export copies the weights of n rows, starting at slot, to dst (n*width floats on the
// host). Rows may be untouched.
func (h *Shard) Export(dst []float32, slot int64, n int) error {
	width, stride := h.o.Width, h.RowBytes()
	direct := inOrder(h)
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
