package kernels

import (
	"fmt"
	"math"
)

// The plain bodies of the optimizers; see Optimizer for the rules. Products are
// converted before they are added to, so that no compiler fuses the two.

func sgdPlain(w, _, _, g []float32, o *Optimizer) {
	for i, x := range g {
		w[i] -= float32(o.LR * x)
	}
}

func momentumPlain(w, s, _, g []float32, o *Optimizer) {
	for i, x := range g {
		m := float32(o.Momentum*s[i]) + x
		s[i] = m
		w[i] -= float32(o.LR * m)
	}
}

func adagradPlain(w, s, _, g []float32, o *Optimizer) {
	for i, x := range g {
		s[i] += float32(x * x)
		w[i] -= float32(float32(o.LR*x) / (sqrt32(s[i]) + o.Eps))
	}
}

func rowwisePlain(w, s, _, g []float32, o *Optimizer) {
	s[0] += meanSquarePlain(g)
	denominator := sqrt32(s[0]) + o.Eps
	for i, x := range g {
		w[i] -= float32(float32(o.LR*x) / denominator)
	}
}

func adamPlain(w, s, v, g []float32, o *Optimizer) {
	for i, x := range g {
		m := float32(o.Beta1*s[i]) + float32(o.C1*x)
		q := float32(o.Beta2*v[i]) + float32(o.C2*float32(x*x))
		s[i], v[i] = m, q
		w[i] -= float32(float32(o.StepSize*m) / (float32(sqrt32(q)/o.BiasSqrt) + o.Eps))
	}
}

// meanSquarePlain is the mean of g*g, summed in the 8 lanes of the package doc.
func meanSquarePlain(g []float32) float32 {
	var l [8]float32
	for i, x := range g {
		l[i%8] += float32(x * x)
	}
	return (((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))) / float32(len(g))
}

// sqrt32 rounds correctly: twice rounded, a square root is still right.
func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func (s *stream) UpdateDense(opt Optimizer, w, state, g Buffer) {
	const op = "UpdateDense"
	t := &s.updatingDense
	*t = updateDenseTask{stream: s, opt: opt,
		w: floatsOf(op, "w", w), state: floatsOf(op, "state", state), g: floatsOf(op, "g", g)}
	if len(t.g) != len(t.w) || len(t.state) != opt.Kind.DenseState(len(t.w)) {
		panic(fmt.Sprintf("kernels: %s of %d weights with %d gradients and %d floats of state", op, len(t.w), len(t.g), len(t.state)))
	}
	s.pool.run(tiles(len(t.w), denseGrain), t)
	*t = updateDenseTask{}
}

// denseGrain is how many weights a tile updates.
const denseGrain = tileBytes / 16

type updateDenseTask struct {
	stream      *stream
	opt         Optimizer
	w, state, g []float32
}

func (t *updateDenseTask) tile(_, i int) {
	lo, hi := span(i, denseGrain, len(t.w))
	var s, v []float32
	if len(t.state) > 0 {
		s = t.state[lo:hi]
	}
	if t.opt.Kind == Adam {
		v = t.state[len(t.w)+lo:][:hi-lo]
	}
	t.stream.update[t.opt.Kind](t.w[lo:hi], s, v, t.g[lo:hi], &t.opt)
}

func (s *stream) UpdateRows(opt Optimizer, rows Matrix, slots Buffer, grads Matrix, start, pos Buffer) {
	const op = "UpdateRows"
	n, d := slots.Floats(), grads.Cols
	if n == 0 {
		return
	}
	t := &s.updatingRows
	*t = updateRowsTask{sumTask: sumTask{stream: s}, opt: opt, width: rows.Cols, stride: rows.Stride, slotLimit: rows.Rows}
	if d == 0 || rows.Cols != d+opt.Kind.RowState(d) {
		panic(fmt.Sprintf("kernels: %s: rows of %d floats for %d weights with %d of state", op, rows.Cols, d, opt.Kind.RowState(d)))
	}
	t.rows = elementsOf(op, "rows", rows, rows.Rows, rows.Cols)
	t.slots = indexesOf(op, "slots", slots, n)
	t.set(op, grads, d, start, pos, n)
	s.pool.run(t.tiles(), t)
	*t = updateRowsTask{}
}

type updateRowsTask struct {
	sumTask
	opt           Optimizer
	rows          []float32
	slots         []int32
	width, stride int
	slotLimit     int
}

// updateBlock is how many rows are asked for from memory, while the gradients of
// the block before are summed in cache and applied.
const updateBlock = 32

func (t *updateRowsTask) tile(worker, i int) {
	lo, hi := t.segments(i)
	if lo == hi {
		return
	}
	checkIndexes("UpdateRows", "slots", t.slots[lo:hi], t.slotLimit)
	w := &t.stream.workers[worker]
	if len(w.grads) < updateBlock*t.d {
		w.grads = make([]float32, updateBlock*t.d)
	}
	w.sum = t.rowSum
	w.sum.dst, w.sum.dstStride = w.grads, t.d
	t.stream.prefetch(t.rows, t.stride, t.slots[lo:min(lo+updateBlock, hi)], 4*t.width)
	for ; lo < hi; lo += updateBlock {
		end := min(lo+updateBlock, hi)
		t.stream.prefetch(t.rows, t.stride, t.slots[end:min(end+updateBlock, hi)], 4*t.width)
		t.sumSegments(&w.sum, "UpdateRows", lo, end)
		t.apply(w.grads, t.slots[lo:end])
	}
	w.sum = rowSum{}
}

// apply updates the rows in slots with one gradient each.
func (t *updateRowsTask) apply(grads []float32, slots []int32) {
	d, update := t.d, t.stream.update[t.opt.Kind]
	for u, slot := range slots {
		row := t.rows[int(slot)*t.stride:][:t.width]
		state := row[d:]
		var v []float32
		if t.opt.Kind == Adam {
			state, v = state[:d], state[d:]
		}
		update(row[:d], state, v, grads[u*d:][:d], &t.opt)
	}
}
