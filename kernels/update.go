package kernels

import "fmt"

func (s *stream) UpdateDense(opt Optimizer, w, state, g Buffer) {
	const op = "UpdateDense"
	t := &s.updatingDense
	*t = updateDenseTask{stream: s, opt: opt,
		w: floatsOf(op, "w", w), state: floatsOf(op, "state", state), g: floatsOf(op, "g", g)}
	if len(t.g) != len(t.w) || len(t.state) != opt.Kind.DenseState(len(t.w)) {
		panic(fmt.Sprintf("kernels: %s of %d weights with %d gradients and %d floats of state", op, len(t.w), len(t.g), len(t.state)))
	}
	s.pool.runTask(partsOf(len(t.w), denseGrain), t)
	*t = updateDenseTask{}
}

// denseGrain is the number of weights that a part updates.
const denseGrain = partBytes / 16

type updateDenseTask struct {
	stream      *stream
	opt         Optimizer
	w, state, g []float32
}

func (t *updateDenseTask) runPart(worker, i int) {
	lo, hi := partSpan(i, denseGrain, len(t.w))
	var s, v []float32
	if len(t.state) > 0 {
		s = t.state[lo:hi]
	}
	if len(t.state) > len(t.w) {
		v = t.state[len(t.w)+lo:][:hi-lo]
	}
	t.stream.updateLoop(t.opt.Kind)(t.w[lo:hi], s, v, t.changedGradient(worker, lo, hi), &t.opt)
}

// changedGradient is the gradient of the weights [lo, hi) with scale and decay, in scratch if
// there is either.
func (t *updateDenseTask) changedGradient(worker, lo, hi int) []float32 {
	g := t.g[lo:hi]
	if !t.opt.changesGradient() {
		return g
	}
	w := &t.stream.workers[worker]
	if len(w.grads) < denseGrain {
		w.grads = make([]float32, denseGrain)
	}
	changed := w.grads[:copy(w.grads, g)]
	t.stream.changeGradient(changed, t.w[lo:hi], &t.opt)
	return changed
}

func (s *stream) UpdateRows(rule RowRule, rows Matrix, slots Buffer, grads Matrix, start, pos Buffer) {
	const op = "UpdateRows"
	n, d := slots.Floats(), grads.Cols
	if n == 0 {
		return
	}
	t := &s.updatingRows
	*t = updateRowsTask{sumTask: sumTask{stream: s}, rule: rule, width: rows.Cols, stride: rows.Stride, slotLimit: rows.Rows}
	t.spans = t.rule.layOut(op, d, rows.Cols)
	for k := range t.rule.count {
		t.updates[k] = s.updateLoop(t.rule.parts[k].Kind)
	}
	t.rows = elementsOf(op, "rows", rows, rows.Rows, rows.Cols)
	t.slots = indexesOf(op, "slots", slots, n)
	t.setSources(op, grads, d, start, pos, n)
	s.pool.runTask(t.partCount(), t)
	*t = updateRowsTask{}
}

type updateRowsTask struct {
	sumTask
	rule          RowRule
	spans         [MaxRowParts]rowSpan
	updates       [MaxRowParts]UpdateLoop
	rows          []float32
	slots         []int32
	width, stride int
	slotLimit     int
}

// updateBlock is the number of rows that are prefetched together, while the gradients
// of the block before are summed in cache and applied.
const updateBlock = 32

func (t *updateRowsTask) runPart(worker, i int) {
	lo, hi := t.segmentsOf(i)
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
		t.sumSegments(&w.sum, lo, end)
		t.applyGradients(w.grads, t.slots[lo:end])
	}
	w.sum = rowSum{}
}

// applyGradients updates the rows in slots with one gradient each.
func (t *updateRowsTask) applyGradients(grads []float32, slots []int32) {
	d := t.d
	for u, slot := range slots {
		row := t.rows[int(slot)*t.stride:][:t.width]
		for k := range t.rule.count {
			p := &t.spans[k]
			state := row[p.state:][:p.states]
			var v []float32
			if len(state) > p.width {
				state, v = state[:p.width], state[p.width:]
			}
			w, g, opt := row[p.first:][:p.width], grads[u*d+p.first:][:p.width], &t.rule.parts[k].Optimizer
			t.stream.changeGradient(g, w, opt)
			t.updates[k](w, state, v, g, opt)
		}
	}
}
