package shard

import (
	"bytes"
	"encoding/binary"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/kernels"
)

// digestRows is how many rows are copied to the host at a time.
const digestRows = 4096

// Digest sums the hashes of the rows whose bytes, weights and state, differ from
// their init. It does not depend on where rows live nor on which were touched.
func (h *Shard) Digest() (digest.Sum, error) {
	d := NewDigester(h.o)
	stride := h.RowBytes()
	chunk := make([]byte, digestRows*stride)
	for at := 0; ; {
		slots, next, err := h.take(chunk, at)
		if err != nil || len(slots) == 0 {
			return d.Sum, err
		}
		for i, slot := range slots {
			d.Add(h.o.Map.Global(h.o.Owner, int64(slot)), chunk[i*stride:(i+1)*stride])
		}
		at = next
	}
}

// Digester sums the digest of rows that are given one by one.
type Digester struct {
	Sum  digest.Sum
	init kernels.RowInit
	draw []float32
	row  []byte // the init of a row; state starts as zeros
}

// NewDigester makes one for the rows that a shard of these options would hold,
// of any owner.
func NewDigester(o Options) *Digester {
	return &Digester{init: InitOf(o), draw: make([]float32, o.Width), row: make([]byte, 4*(o.Width+o.State))}
}

// Add counts the bytes of the global row g in, unless they are its init.
func (d *Digester) Add(g int64, row []byte) {
	d.init.Row(d.draw, g)
	copy(d.row, kernels.BytesOf(d.draw))
	if bytes.Equal(row, d.row) {
		return
	}
	var key [8]byte
	binary.LittleEndian.PutUint64(key[:], uint64(g))
	d.Sum.Add(digest.Of("row", key[:], row))
}

// Export copies the weights of the n rows from slot on to dst (n*width floats on
// the host), touched or not.
func (h *Shard) Export(dst []float32, slot int64, n int) error {
	width, stride := h.o.Width, h.RowBytes()
	src, direct := h.rows.RowRange(int(slot), n), h.rows.Buf.OnHost()
	var touched []int32 // that a GPU gathers, and where they go
	var to [][]byte
	for i := range n {
		row, at := dst[i*width:(i+1)*width], int32(slot)+int32(i)
		switch {
		case !h.isTouched(at):
			h.init.Row(row, h.o.Map.Global(h.o.Owner, int64(at)))
		case direct:
			h.s.Download(kernels.BytesOf(row), src.RowRange(i, 1).Columns(0, width).Buf)
		default:
			touched, to = append(touched, at), append(to, kernels.BytesOf(row))
		}
	}
	rows := make([]byte, min(len(touched), digestRows)*stride)
	for len(touched) > 0 {
		most := min(len(touched), digestRows)
		if err := h.download(rows[:most*stride], touched[:most]); err != nil {
			return err
		}
		for i, row := range to[:most] {
			copy(row, rows[i*stride:])
		}
		touched, to = touched[most:], to[most:]
	}
	return h.s.Sync()
}
