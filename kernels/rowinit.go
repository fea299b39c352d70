package kernels

import (
	"crypto/subtle"
	"fmt"
	"math"

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

// rowDraw is how one row is drawn: Philox's key and the counter of its first block,
// whose last word counts blocks of four weights.
type rowDraw struct {
	key     [2]uint32
	counter [4]uint32
	scale   float32
}

// drawPlain draws the weights of whole blocks.
func drawPlain(dst []float32, d *rowDraw) {
	counter := d.counter
	for ; len(dst) > 0; dst = dst[4:] {
		for j, u := range rng.Philox(d.key, counter) {
			dst[j] = rng.Symmetric(u) * d.scale
		}
		counter[3]++
	}
}

// drawer draws rows, one after the other: mostly those of one table.
type drawer struct {
	*RowInit
	draw   func(dst []float32, d *rowDraw)
	lo, hi int64 // the rows of the table of the row before
	row    rowDraw
	rest   [drawn]float32
}

// drawn is how many weights a body draws at a time.
const drawn = 16

// slot draws the weights of the row in a slot.
func (d *drawer) slot(dst []float32, slot int32) {
	global := int64(slot)*int64(d.Owners) + int64(d.Owner)
	if global < d.lo || global >= d.hi {
		table := d.Table(global)
		d.lo, d.hi = d.Base[table], d.Base[table+1]
		d.row.scale = d.Scale[table]
		d.row.key, d.row.counter = rng.Counter(d.Seed, rng.RowInit, uint32(table), 0, 0)
	}
	_, d.row.counter = rng.Counter(d.Seed, rng.RowInit, d.row.counter[1], uint64(global-d.lo), 0)
	whole := len(dst) / drawn * drawn
	d.draw(dst[:whole], &d.row)
	if whole < len(dst) {
		d.row.counter[3] = uint32(whole / 4)
		d.draw(d.rest[:], &d.row)
		copy(dst[whole:], d.rest[:])
	}
}

func (s *stream) InitRows(rows Matrix, slots Buffer, init RowInit) {
	s.initRows("InitRows", rows, slots, init, rows.Rows, false)
}

func (s *stream) XorInit(rows Matrix, slots Buffer, init RowInit) {
	s.initRows("XorInit", rows, slots, init, math.MaxInt32+1, true)
}

func (s *stream) initRows(op string, rows Matrix, slots Buffer, init RowInit, limit int, xor bool) {
	n := slots.Floats()
	if n == 0 {
		return
	}
	if init.Width > rows.Cols || len(init.Base) != len(init.Scale)+1 {
		panic(fmt.Sprintf("kernels: %s: %d weights in rows of %d floats, %d tables with %d scales", op, init.Width, rows.Cols, len(init.Base)-1, len(init.Scale)))
	}
	if xor && n != rows.Rows {
		panic(fmt.Sprintf("kernels: %s: %d slots for %d rows", op, n, rows.Rows))
	}
	s.drawing = initRowsTask{RowInit: init, s: s, op: op, rows: elementsOf(op, "rows", rows, rows.Rows, rows.Cols), slots: indexesOf(op, "slots", slots, n),
		limit: limit, width: rows.Cols, stride: rows.Stride, xor: xor}
	s.pool.run(tiles(n, initGrain), &s.drawing)
	s.drawing = initRowsTask{}
}

// initGrain is how many rows a tile draws.
const initGrain = 128

type initRowsTask struct {
	RowInit
	s                    *stream
	op                   string
	rows                 []float32
	slots                []int32
	limit, width, stride int
	xor                  bool // row i is that of slots[i], and its init is added to it
}

func (t *initRowsTask) tile(worker, i int) {
	lo, hi := span(i, initGrain, len(t.slots))
	checkIndexes(t.op, "slots", t.slots[lo:hi], t.limit)
	w := &t.s.workers[worker]
	w.draw = drawer{RowInit: &t.RowInit, draw: t.s.draw}
	if len(w.init) < t.Width {
		w.init = make([]float32, t.Width)
	}
	init := w.init[:t.Width]
	for k := lo; k < hi; k++ {
		slot := t.slots[k]
		if t.xor {
			w.draw.slot(init, slot)
			row := BytesOf(t.rows[k*t.stride:][:t.Width])
			subtle.XORBytes(row, row, BytesOf(init))
			continue
		}
		row := t.rows[int(slot)*t.stride:][:t.width]
		w.draw.slot(row[:t.Width], slot)
		clear(row[t.Width:])
	}
	w.draw = drawer{} // no operand outlives its operation
}
