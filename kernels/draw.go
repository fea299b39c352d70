package kernels

import (
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
	*innerLoops
	lo, hi     int64 // the global rows of the table of the row before
	row, other rowDraw
	rest       [drawn]float32
}

// drawn is the number of weights that an inner loop draws at a time.
const drawn = 16

// seekRow makes row the first block of the row in a slot.
func (d *drawer) seekRow(slot int32) {
	global := int64(slot)*int64(d.Owners) + int64(d.Owner)
	if global < d.lo || global >= d.hi {
		table := d.Table(global)
		d.lo, d.hi = d.Base[table], d.Base[table+1]
		d.row.key, d.row.counter = rng.Counter(d.Seed, rng.RowInit, uint32(table), 0, 0)
	}
	_, d.row.counter = rng.Counter(d.Seed, rng.RowInit, d.row.counter[1], uint64(global-d.lo), 0)
}

// seekPart makes a row the first block of one of its parts.
func (d *drawer) seekPart(row *rowDraw, part int) {
	row.scale, row.counter[3] = d.Scale[part*(len(d.Base)-1)+int(row.counter[1])], uint32(part)<<partShift
}

// drawSlot draws the initial weights of the row in a slot.
func (d *drawer) drawSlot(dst []float32, slot int32) {
	d.seekRow(slot)
	for part := range d.countParts() {
		d.seekPart(&d.row, part)
		width := d.widthOf(part)
		d.drawPart(dst[:width], &d.row)
		dst = dst[width:]
	}
}

// drawSlots draws the initial weights of the rows in two slots. That takes little longer than one.
func (d *drawer) drawSlots(first, second []float32, a, b int32) {
	d.seekRow(a)
	d.other = d.row
	d.seekRow(b)
	if d.other.counter[1] != d.row.counter[1] { // another table: it may have another scale
		d.drawSlot(first, a)
		d.drawSlot(second, b)
		return
	}
	for part := range d.countParts() {
		d.seekPart(&d.other, part)
		d.seekPart(&d.row, part)
		width := d.widthOf(part)
		if width%drawn == 0 && d.row.scale != 0 {
			d.draw.two(first[:width], second[:width], &d.other, &d.row)
		} else {
			d.drawPart(first[:width], &d.other)
			d.drawPart(second[:width], &d.row)
		}
		first, second = first[width:], second[width:]
	}
}

// drawPart draws the weights of the part that row describes.
func (d *drawer) drawPart(dst []float32, row *rowDraw) {
	if row.scale == 0 {
		clear(dst)
		return
	}
	whole := len(dst) / drawn * drawn
	d.draw.one(dst[:whole], row)
	if whole < len(dst) {
		row.counter[3] += uint32(whole / 4)
		d.draw.one(d.rest[:], row)
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
	w.draw = drawer{RowInit: &t.RowInit, innerLoops: t.s.innerLoops}
	if len(w.init) < 2*t.Width {
		w.init = make([]float32, 2*t.Width)
	}
	k := lo
	for ; k+1 < hi; k += 2 {
		first, second := t.target(w, k, 0), t.target(w, k+1, 1)
		w.draw.drawSlots(first[:t.Width], second[:t.Width], t.slots[k], t.slots[k+1])
		t.finishRow(first, k)
		t.finishRow(second, k+1)
	}
	if k < hi {
		only := t.target(w, k, 0)
		w.draw.drawSlot(only[:t.Width], t.slots[k])
		t.finishRow(only, k)
	}
	w.draw = drawer{} // no operand outlives its operation
}

// target is where the initial weights of row k are drawn: in the row, or in scratch if they are added to it.
func (t *initRowsTask) target(w *worker, k, place int) []float32 {
	if t.xor {
		return w.init[place*t.Width:][:t.Width]
	}
	return t.rows[int(t.slots[k])*t.stride:][:t.width]
}

// finishRow makes row k of the weights that are drawn.
func (t *initRowsTask) finishRow(drawn []float32, k int) {
	if t.xor {
		row := t.rows[k*t.stride:][:t.Width]
		t.s.xor.one(row, row, drawn)
		return
	}
	clear(drawn[t.Width:])
}
