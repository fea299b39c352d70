package kernels

import (
	"crypto/subtle"
	"fmt"
	"math"

	"github.com/ecrec/ecrec/internal/rng"
)

// rowDraw holds the state that draws one row: Philox's key and the counter of its
// first block. The counter's last word counts blocks of four weights.
type rowDraw struct {
	key     [2]uint32
	counter [4]uint32
	scale   float32
}

// drawPlain draws blocks of four weights. The length of dst is a multiple of 4.
func drawPlain(dst []float32, d *rowDraw) {
	counter := d.counter
	for ; len(dst) > 0; dst = dst[4:] {
		for j, u := range rng.Philox(d.key, counter) {
			dst[j] = rng.Symmetric(u) * d.scale
		}
		counter[3]++
	}
}

// drawer draws rows one after the other. Most are of the same table as the row
// before.
type drawer struct {
	*RowInit
	draw   func(dst []float32, d *rowDraw)
	lo, hi int64 // the global rows of the table of the row before
	row    rowDraw
	rest   [drawn]float32
}

// drawn is the number of weights that an inner loop draws at a time.
const drawn = 16

// drawSlot draws the initial weights of the row in a slot.
func (d *drawer) drawSlot(dst []float32, slot int32) {
	global := int64(slot)*int64(d.Owners) + int64(d.Owner)
	if global < d.lo || global >= d.hi {
		table := d.Table(global)
		d.lo, d.hi = d.Base[table], d.Base[table+1]
		d.row.key, d.row.counter = rng.Counter(d.Seed, rng.RowInit, uint32(table), 0, 0)
	}
	table := d.row.counter[1]
	_, d.row.counter = rng.Counter(d.Seed, rng.RowInit, table, uint64(global-d.lo), 0)
	for part := range d.countParts() {
		d.row.scale, d.row.counter[3] = d.Scale[part*(len(d.Base)-1)+int(table)], uint32(part)<<partShift
		width := d.widthOf(part)
		d.drawPart(dst[:width])
		dst = dst[width:]
	}
}

// drawPart draws the weights of the part that row describes.
func (d *drawer) drawPart(dst []float32) {
	if d.row.scale == 0 {
		clear(dst)
		return
	}
	whole := len(dst) / drawn * drawn
	d.draw(dst[:whole], &d.row)
	if whole < len(dst) {
		d.row.counter[3] += uint32(whole / 4)
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
	init.check(op, rows.Cols)
	if xor && n != rows.Rows {
		panic(fmt.Sprintf("kernels: %s: %d slots for %d rows", op, n, rows.Rows))
	}
	s.drawing = initRowsTask{RowInit: init, s: s, op: op,
		rows: elementsOf(op, "rows", rows, rows.Rows, rows.Cols), slots: indexesOf(op, "slots", slots, n),
		limit: limit, width: rows.Cols, stride: rows.Stride, xor: xor}
	s.pool.runTask(partsOf(n, initGrain), &s.drawing)
	s.drawing = initRowsTask{}
}

// initGrain is the number of rows that a part draws.
const initGrain = 128

type initRowsTask struct {
	RowInit
	s                    *stream
	op                   string
	rows                 []float32
	slots                []int32
	limit, width, stride int
	xor                  bool // row i is the row of slots[i], and its initial weights are added to it
}

func (t *initRowsTask) runPart(worker, i int) {
	lo, hi := partSpan(i, initGrain, len(t.slots))
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
			w.draw.drawSlot(init, slot)
			row := BytesOf(t.rows[k*t.stride:][:t.Width])
			subtle.XORBytes(row, row, BytesOf(init))
			continue
		}
		row := t.rows[int(slot)*t.stride:][:t.width]
		w.draw.drawSlot(row[:t.Width], slot)
		clear(row[t.Width:])
	}
	w.draw = drawer{} // no operand outlives its operation
}
