package kernels

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/rng"
)

// RowInit draws the initial weights of embedding rows: a pure function of
// (Seed, table, id). An untouched row therefore costs nothing to hold, protect or
// recover: parity covers row XOR initial row, which is zero at the start. The weights
// of a part are uniform in (-scale, scale), and +0.0 if its scale is 0. Each part has a
// key of its own, so that its weights do not depend on the other parts.
type RowInit struct {
	Seed uint64
	// Owners and Owner place rows: slot s is global row s*Owners + Owner.
	Owners, Owner int
	// Base holds the first global row of each table, then the number of rows.
	Base []int64
	// Scale holds the bound of the weights in each table: those of part 0, then those of
	// part 1, and so on.
	Scale []float32
	// Width is the number of weights of a row.
	Width int
	// Parts are the widths of the parts of a row, at most MaxRowParts. Nil: one part.
	Parts []int
}

// countParts is the number of parts of a row.
func (r *RowInit) countParts() int { return max(1, len(r.Parts)) }

// widthOf is the number of weights of a part.
func (r *RowInit) widthOf(part int) int {
	if len(r.Parts) == 0 {
		return r.Width
	}
	return r.Parts[part]
}

// check panics unless the widths, tables and scales fit each other and rows of cols floats.
func (r *RowInit) check(op string, cols int) {
	width := 0
	for part := range r.countParts() {
		width += r.widthOf(part)
	}
	if r.Width > cols || width != r.Width || r.countParts() > MaxRowParts || r.countParts()*(len(r.Base)-1) != len(r.Scale) {
		panic(fmt.Sprintf("kernels: %s: %d weights in rows of %d floats, parts of %v, %d tables with %d scales",
			op, r.Width, cols, r.Parts, len(r.Base)-1, len(r.Scale)))
	}
}

// partShift is the position of the part's number in the block of a draw. The bits below
// count blocks of four weights.
const partShift = 24

// Table returns the table that a global row belongs to.
func (r *RowInit) Table(row int64) int {
	if row < 0 || row >= r.Base[len(r.Base)-1] {
		panic(fmt.Sprintf("kernels: row %d of %d", row, r.Base[len(r.Base)-1]))
	}
	lo, hi := 0, len(r.Base)-1
	for lo+1 < hi { // Invariant: Base[lo] <= row < Base[hi]
		if mid := (lo + hi) / 2; r.Base[mid] <= row {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// Row draws the weights of a global row into the first Width floats of dst.
func (r *RowInit) Row(dst []float32, global int64) {
	table := r.Table(global)
	id, first := uint64(global-r.Base[table]), 0
	for part := range r.countParts() {
		width, scale := r.widthOf(part), r.Scale[part*(len(r.Base)-1)+table]
		r.drawPart(dst[first:first+width], part, table, id, scale)
		first += width
	}
}

// First draws the first weight of a global row.
func (r *RowInit) First(global int64) float32 {
	table := r.Table(global)
	var first [1]float32
	r.drawPart(first[:], 0, table, uint64(global-r.Base[table]), r.Scale[table])
	return first[0]
}

// Firsts draws the first weight of each global row, as First does.
func (r *RowInit) Firsts(dst []float32, globals []int64) {
	var tables [2]uint32
	var ids [2]uint64
	for i := 0; i < len(globals); i += 2 {
		pair := globals[i:min(i+2, len(globals))]
		for j, g := range pair {
			table := r.Table(g)
			tables[j], ids[j] = uint32(table), uint64(g-r.Base[table])
		}
		first, second := rng.DrawFirsts(r.Seed, rng.RowInit, tables, ids, 0)
		for j, u := range [2]uint32{first, second} {
			if j == len(pair) {
				break
			}
			if dst[i+j] = 0; r.Scale[tables[j]] != 0 {
				dst[i+j] = rng.Symmetric(u) * r.Scale[tables[j]]
			}
		}
	}
}

// drawPart draws the weights of one part of a row.
func (r *RowInit) drawPart(dst []float32, part, table int, id uint64, scale float32) {
	if scale == 0 {
		clear(dst)
		return
	}
	for i := 0; i < len(dst); i += 4 {
		block := rng.Draw(r.Seed, rng.RowInit, uint32(table), id, uint32(part)<<partShift|uint32(i/4))
		for j, u := range block[:min(4, len(dst)-i)] {
			dst[i+j] = rng.Symmetric(u) * scale
		}
	}
}
