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

// Digester computes the digest of rows that are given one by one.
type Digester struct {
	Sum  digest.Sum
	init kernels.RowInit
	draw []float32
	row  []byte // the init of a row; state starts as zeros

	firsts []float32 // scratch of AppendTerms
	drawn  []int64   // and the rows whose first weights these are
}

// NewDigester makes a Digester for rows of any owner, with the seed, tables and widths of o.
func NewDigester(o Options) *Digester {
	return &Digester{init: InitOf(o), draw: make([]float32, o.Width), row: make([]byte, 4*(o.Width+o.State))}
}

// Add adds the term of the global row g.
func (d *Digester) Add(g int64, row []byte) { d.Sum.Add(d.Term(g, row)) }

// AppendTerms appends the terms of some global rows. Their bytes follow each other in rows. The term of a row that skip marks is zero; an empty
// skip marks none.
func (d *Digester) AppendTerms(sums []digest.Sum, globals []int64, rows []byte, skip []bool) []digest.Sum {
	n := len(d.row)
	d.drawn = d.drawn[:0]
	for i, g := range globals {
		if isSkipped(skip, i) || d.hasState(rows[i*n:(i+1)*n]) {
			continue
		}
		d.drawn = append(d.drawn, g)
	}
	if len(d.firsts) < len(d.drawn) {
		d.firsts = make([]float32, len(globals))
	}
	d.init.Firsts(d.firsts, d.drawn)
	drawn := 0
	for i, g := range globals {
		sum, row := digest.Sum{}, rows[i*n:(i+1)*n]
		switch {
		case isSkipped(skip, i):
		case d.hasState(row):
			sum = termOf(g, row)
		default:
			if !d.isInit(g, row, d.firsts[drawn]) {
				sum = termOf(g, row)
			}
			drawn++
		}
		sums = append(sums, sum)
	}
	return sums
}

func isSkipped(skip []bool, i int) bool { return len(skip) > 0 && skip[i] }

// hasState reports whether the last word of a row is optimizer state that is not zero, as in most rows that were updated. Such a row
// differs from its init.
func (d *Digester) hasState(row []byte) bool {
	return len(d.row) > 4*len(d.draw) && binary.LittleEndian.Uint32(row[len(row)-4:]) != 0
}

// Term is the global row g's term of the digest: a hash of its bytes, zero if they are its
// init.
func (d *Digester) Term(g int64, row []byte) digest.Sum {
	if d.isInit(g, row, d.init.First(g)) {
		return digest.Sum{}
	}
	return termOf(g, row)
}

// termOf is the term of a row that differs from its init.
func termOf(g int64, row []byte) digest.Sum {
	var key [8]byte
	binary.LittleEndian.PutUint64(key[:], uint64(g))
	return digest.Of("row", key[:], row)
}

// isInit reports whether a row equals its init, whose first weight is given. It shows of most rows that they do not.
func (d *Digester) isInit(g int64, row []byte, first float32) bool {
	if binary.LittleEndian.Uint32(row) != math.Float32bits(first) {
		return false
	}
	d.init.Row(d.draw, g)
	copy(d.row, kernels.BytesOf(d.draw))
	return bytes.Equal(row, d.row)
}
