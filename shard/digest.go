package shard

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/kernels"
)

// digestRows is how many rows are copied to the host at a time.
const digestRows = 4096

// Digest is the sum of the hashes of all rows whose bytes, weights and state, differ from
// their init. It does not depend on the owners of rows, nor on which rows were touched.
func (h *Shard) Digest() (digest.Sum, error) {
	d := NewDigester(h.o)
	stride := h.RowBytes()
	chunk := make([]byte, digestRows*stride)
	for at := 0; ; {
		slots, next, err := h.readTouched(chunk, at)
		if err != nil || len(slots) == 0 {
			return d.Sum, err
		}
		for i, slot := range slots {
			d.Add(h.o.Map.Global(h.o.Owner, int64(slot)), chunk[i*stride:(i+1)*stride])
		}
		at = next
	}
}

// Digester computes the digest of rows that are given one by one.
type Digester struct {
	Sum  digest.Sum
	init kernels.RowInit
	draw []float32
	row  []byte // the init of a row; state starts as zeros
}

// NewDigester makes a Digester for rows of any owner, with the seed, tables and widths of o.
func NewDigester(o Options) *Digester {
	return &Digester{init: InitOf(o), draw: make([]float32, o.Width), row: make([]byte, 4*(o.Width+o.State))}
}

// Add adds the term of the global row g.
func (d *Digester) Add(g int64, row []byte) { d.Sum.Add(d.Term(g, row)) }

// Term is the global row g's term of the digest: a hash of its bytes, zero if they are its
// init.
func (d *Digester) Term(g int64, row []byte) digest.Sum {
	if d.isInit(g, row) {
		return digest.Sum{}
	}
	var key [8]byte
	binary.LittleEndian.PutUint64(key[:], uint64(g))
	return digest.Of("row", key[:], row)
}

// isInit reports whether a row equals its init. The first weight of most rows shows that they do
// not.
func (d *Digester) isInit(g int64, row []byte) bool {
	if first := d.init.First(g); binary.LittleEndian.Uint32(row) != math.Float32bits(first) {
		return false
	}
	d.init.Row(d.draw, g)
	copy(d.row, kernels.BytesOf(d.draw))
	return bytes.Equal(row, d.row)
}

// Export copies the weights of n rows, starting at slot, to dst (n*width floats on the
// host). Rows may be untouched.
func (h *Shard) Export(dst []float32, slot int64, n int) error {
	width, stride := h.o.Width, h.RowBytes()
	src, direct := h.rows.RowRange(int(slot), n), h.rows.Buf.OnHost()
	var touched []int32 // slots that a GPU gathers
	var to [][]byte     // the destinations of their rows
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
