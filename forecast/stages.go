package forecast

import (
	"runtime"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/oracle"
	"github.com/ecrec/ecrec/plan"
)

// prepareSlice prepares the work of a trainer for its slice.
func (b *bench) prepareSlice(w *plan.Work) {
	j, batch := &b.outline.Job, b.batch
	var p oracle.Plan
	w.Plan = b.median(1, func() {
		p.Fill(j.Place, oracle.Lookups{IDs: batch.IDs, Offsets: batch.Offsets, Weights: batch.Weights, TableOf: b.outline.TableOf()})
	})
	m, err := model.New(b.dev, b.s, b.outline.ModelConfig())
	if err != nil {
		b.err = err
		return
	}
	b.model = m
	rows := len(p.Slots)
	in := model.Batch{Rows: kernels.Mat(b.alloc(rows*j.Width, kernels.Working), rows, j.Width), Train: true, Step: 1, GlobalN: b.outline.BatchSize(),
		AddUp: func(kernels.Buffer) {}}
	in.Dense = kernels.Mat(b.alloc(len(batch.Dense), kernels.Working), batch.N, len(batch.Dense)/max(1, batch.N))
	labels, losses := b.alloc(batch.N, kernels.Working), b.alloc(batch.N, kernels.Working)
	dlogits := kernels.Mat(b.alloc(batch.N, kernels.Working), batch.N, 1)
	in.Index = b.upload(p.Index)
	if batch.Offsets != nil {
		in.Offsets = b.upload(batch.Offsets)
		if means := b.outline.Means(); len(means) > 0 {
			in.Mean = b.upload(means)
		}
	}
	if b.err != nil || batch.N == 0 {
		return
	}
	if len(batch.Weights) > 0 {
		in.Weights = b.alloc(len(batch.Weights), kernels.Working)
		b.s.Upload(in.Weights, kernels.BytesOf(batch.Weights))
	}
	for i, x := 0, kernels.HostView[float32](in.Rows.Buf); i < len(x); i++ {
		x[i] = 0.02 * (b.random.Float32() - 0.5)
	}
	b.addStage(&w.Upload, 1, func() {
		b.s.Upload(in.Dense.Buf, kernels.BytesOf(batch.Dense))
		b.s.Upload(labels, kernels.BytesOf(batch.Labels))
		b.s.Upload(in.Index, kernels.BytesOf(p.Index))
	})
	b.addStage(&w.Forward, 1, func() {
		b.s.SigmoidBCE(losses, dlogits.Buf, m.Forward(in).Buf, labels, 1/float32(batch.N))
	})
	var cells kernels.Matrix
	b.addStage(&w.Backward, 1, func() {
		cells = m.Backward(in, dlogits, func(kernels.Buffer) {})
		in.DivideGrad(b.s, cells)
	})
	b.prepareSums(w, &p, &cells)
}

// prepareSums prepares the sums of the gradients of each row.
func (b *bench) prepareSums(w *plan.Work, p *oracle.Plan, cells *kernels.Matrix) {
	if b.err != nil || len(p.Slots) == 0 {
		return
	}
	width := b.outline.Job.Width
	sums := kernels.Mat(b.alloc(len(p.Slots)*width, kernels.Working), len(p.Slots), width)
	start, pos := b.upload(p.Start), b.upload(p.Pos)
	b.addStage(&w.Sum, 1, func() { b.s.SumRows(sums, kernels.Mat(cells.Buf, cells.Buf.Floats()/width, width), start, pos) })
	b.endStage() // gradients are sent
}

// upload copies a list to the device.
func (b *bench) upload(list []int32) kernels.Buffer {
	x := b.alloc(len(list), kernels.Working)
	if b.err == nil && len(list) > 0 {
		b.s.Upload(x, kernels.BytesOf(list))
	}
	return x
}

// prepareOwner prepares the work of an owner: rows that it sends, updates and protects.
func (b *bench) prepareOwner(w *plan.Work) {
	j, r := &b.outline.Job, b.r
	bytes := int64(tableBytes * min(b.copies, runtime.NumCPU()) / b.copies)
	slots := int(min(j.Place.Slots(0), bytes/int64(4*j.Stride)))
	if slots == 0 || r.Served == 0 {
		return
	}
	table := kernels.Mat(b.alloc(slots*j.Stride, kernels.Sparse), slots, j.Stride)
	if b.err != nil {
		return
	}
	b.s.Zero(table.Buf) // takes the memory from the system
	served := kernels.Mat(b.alloc(int(r.Served)*j.Width, kernels.Working), int(r.Served), j.Width)
	index := b.upload(b.slots(int(r.Served), slots))
	serve := func() { b.s.GatherRows(served, table.Columns(0, j.Width), index) }

	updated := min(max(1, int(r.Updated)), int(r.Summed), slots)
	start, pos := make([]int32, updated+1), make([]int32, int(r.Summed))
	for i := range start {
		start[i] = int32(i * len(pos) / updated)
	}
	for i := range pos { // a row's gradients are from different ranks
		pos[i] = int32(i)
	}
	b.random.Shuffle(len(pos), func(i, k int) { pos[i], pos[k] = pos[k], pos[i] })
	rule, _ := b.outline.Rules(1)
	at, first, places := b.upload(b.distinct(updated, slots)), b.upload(start), b.upload(pos)
	grads := kernels.Mat(b.alloc(len(pos)*j.Width, kernels.Working), len(pos), j.Width)
	b.addStage(&w.Apply, 1, func() { b.s.UpdateRows(rule, table, at, grads, first, places) })
	b.addStage(&w.Serve, 1, serve)
	b.endStage() // rows are sent

	lists := b.requests(int(r.Served), min(j.Trainers, 64), slots)
	var merged oracle.Merged
	w.Merge = b.median(1, func() { merged.Merge(lists.slots, lists.perRank) })
	if j.Commits && j.Coded {
		b.measureCommits(w, table)
	}
}

// measureCommits measures the work of an epoch: pre-images, deltas, and their folding into parities.
func (b *bench) measureCommits(w *plan.Work, table kernels.Matrix) {
	r := b.r
	changed, folded := min(int(r.Changed), table.Rows), min(int(r.Folded), table.Rows)
	if changed > 0 {
		copies := kernels.Mat(b.alloc(changed*table.Cols, kernels.Working), changed, table.Cols)
		deltas := kernels.Mat(b.alloc(changed*table.Cols, kernels.Working), changed, table.Cols)
		at, upTo := b.upload(b.distinct(changed, table.Rows)), b.upload(count(changed))
		w.PreImages = b.seconds(func() { b.s.GatherRows(copies, table, at) })
		parities := float64(b.outline.Job.Layout.Parity)
		w.Seal = parities * b.seconds(func() { b.s.XorRows(deltas, table, at, copies, upTo) })
	}
	if folded > 0 {
		deltas := kernels.Mat(b.alloc(folded*table.Cols, kernels.Working), folded, table.Cols)
		at, from := b.upload(b.distinct(folded, table.Rows)), b.upload(count(folded))
		w.Fold = b.seconds(func() { b.s.FoldRows(table, at, deltas, from, nil) })
	}
	if b.err == nil {
		params := model.ShapeOf(b.outline.ModelConfig()).SavedFloats()
		both := b.alloc(2*params, kernels.Working)
		w.Snapshot = b.seconds(func() { b.s.Copy(both.Slice(0, 4*params), both.Slice(4*params, 4*params)) })
	}
}

// prepareDense prepares the update of the dense part and the sums of its gradients.
func (b *bench) prepareDense(w *plan.Work) {
	const most = 8 // addends of a measurement
	n := model.ShapeOf(b.outline.ModelConfig()).DenseParams()
	_, rule := b.outline.Rules(1)
	weights, grad, state := b.alloc(n, kernels.Working), b.alloc(n, kernels.Working), b.alloc(rule.Kind.DenseState(n), kernels.Working)
	if b.err != nil || n == 0 {
		return
	}
	trainers := b.outline.Job.Trainers
	update := func() { b.s.UpdateDense(rule, weights, state, grad) }
	if trainers == 1 {
		b.addStage(&w.Update, 1, update)
		return
	}
	segment, addends := max(1, n/trainers), min(trainers, most)
	parts := make([]kernels.Buffer, addends)
	for i := range parts {
		parts[i] = b.alloc(segment, kernels.Working)
	}
	b.addStage(&w.Reduce, float64(trainers)/float64(addends), func() { b.s.Sum(weights.SliceFloats(0, segment), parts) })
	b.endStage() // sums are sent
	b.addStage(&w.Update, 1, update)
}
