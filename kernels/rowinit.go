package kernels

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/rng"
)

// RowInit draws the initial weights of embedding rows: a pure function of
// (Seed, table, id), so that a row never touched costs nothing to hold, to
// protect or to recover (DESIGN.md section 3). Weight j of a row of a table with
// n rows is uniform in (-sqrt(1/n), sqrt(1/n)), as in the reference DLRM.
type RowInit struct {
	Seed uint64
	// Owners and Owner place rows: slot s is global row s*Owners + Owner.
	Owners, Owner int
	// Base holds the first global row of each table and, last, the row count.
	Base []int64
	// Scale holds sqrt(1/rows) of each table.
	Scale []float32
	// Width is how many weights a row has.
	Width int
}

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
	id, scale := uint64(global-r.Base[table]), r.Scale[table]
	for i := 0; i < r.Width; i += 4 {
		block := rng.Draw(r.Seed, rng.RowInit, uint32(table), id, uint32(i/4))
		for j, u := range block[:min(4, r.Width-i)] {
			dst[i+j] = rng.Symmetric(u) * scale
		}
	}
}

func (s *stream) InitRows(rows Matrix, slots Buffer, init RowInit) {
	const op = "InitRows"
	n := slots.Floats()
	if n == 0 {
		return
	}
	if init.Width > rows.Cols || len(init.Base) != len(init.Scale)+1 {
		panic(fmt.Sprintf("kernels: %s: %d weights in rows of %d floats, %d tables with %d scales", op, init.Width, rows.Cols, len(init.Base)-1, len(init.Scale)))
	}
	s.drawing = initRowsTask{init, elementsOf(op, "rows", rows, rows.Rows, rows.Cols), indexesOf(op, "slots", slots, n), rows.Rows, rows.Cols, rows.Stride}
	s.pool.run(tiles(n, initGrain), &s.drawing)
	s.drawing = initRowsTask{}
}

// initGrain is how many rows a tile draws.
const initGrain = 128

type initRowsTask struct {
	RowInit
	rows                 []float32
	slots                []int32
	limit, width, stride int
}

func (t *initRowsTask) tile(_, i int) {
	lo, hi := span(i, initGrain, len(t.slots))
	checkIndexes("InitRows", "slots", t.slots[lo:hi], t.limit)
	for _, s := range t.slots[lo:hi] {
		slot := int(s)
		row := t.rows[slot*t.stride:][:t.width]
		t.Row(row, int64(slot)*int64(t.Owners)+int64(t.Owner))
		clear(row[t.Width:])
	}
}
