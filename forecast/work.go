package forecast

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/oracle"
	"github.com/ecrec/ecrec/plan"
	"github.com/ecrec/ecrec/train"
)

// Repeats of a measurement: as many as take a while, within limits. The first call is not counted.
const (
	leastRepeats, mostRepeats = 3, 50
	measureFor                = 200 * time.Millisecond
)

// coarse is the least time of a core that the kernel counts well, for all threads of a process.
const coarse = 2 * time.Millisecond

const (
	// tableBytes is the memory of the tables whose rows are read and updated, for each core: far more than the caches hold.
	tableBytes = 128 << 20
	// mostCopies limits the copies that are measured at a time.
	mostCopies = 64
)

// bench measures the work of one rank.
type bench struct {
	outline *train.Outline
	dev     kernels.Device
	s       kernels.Stream
	threads int
	copies  int // that run at a time
	r       *plan.RankMean
	batch   *data.Batch // its slice
	work    plan.Work
	buffers []kernels.Buffer
	random  *rand.Rand
	err     error
}

// measureWork measures the work of the rank that moves the most bytes. As many copies run at a time as there are processes
// on a machine: they share its caches, its memory and, if there are too few, its cores as the processes do. Copies that share
// a core find less of their data in its caches than one that has it alone.
func measureWork(outline *train.Outline, f *plan.Forecast) (*plan.Work, error) {
	dev, err := kernels.NewCPU(kernels.CPUOptions{BLAS: outline.BLAS()})
	if err != nil {
		return nil, err
	}
	threads := outline.Threads()
	copies := min(f.Processes, mostCopies)
	if threads > 1 { // copies that share cores are timed by the clock of their only thread
		copies = max(1, min(copies, runtime.NumCPU()/threads))
	}
	all := make([]*bench, copies)
	for i := range all {
		all[i] = &bench{outline: outline, dev: dev, threads: threads, copies: copies, r: &f.Largest, random: rand.New(rand.NewPCG(1, uint64(i)))}
	}
	all[0].readSlice()
	for _, b := range all {
		b.batch, b.err = all[0].batch, all[0].err
	}
	var wait sync.WaitGroup
	for _, b := range all {
		wait.Go(b.measureAll)
	}
	wait.Wait()
	sum := &plan.Work{}
	for _, b := range all {
		if b.err != nil {
			return nil, fmt.Errorf("forecast: measure the work of a rank: %w", b.err)
		}
		sum.AddShare(&b.work, 1/float64(len(all)))
	}
	sum.Read = all[0].work.Read
	return sum, nil
}

// measureAll measures all but the reading of the slice.
func (b *bench) measureAll() {
	runtime.LockOSThread() // usedTime is that of a thread
	defer runtime.UnlockOSThread()
	b.s = b.dev.Stream(b.threads)
	defer func() {
		b.s.Close()
		for _, x := range b.buffers {
			b.dev.Free(x)
		}
	}()
	if b.err != nil {
		return
	}
	b.measureSlice(&b.work)
	b.measureOwner(&b.work)
	b.measureDense(&b.work)
}

// readSlice reads the slice of the last trainer, which is among the largest, in some steps.
func (b *bench) readSlice() {
	step, last := int64(0), max(1, min(8, b.outline.Steps()))
	b.work.Read = b.median(1, func() {
		step = step%last + 1
		b.batch, b.err = b.outline.Batch(step, b.outline.Job.Trainers-1)
	})
}

// alloc returns zeroed memory of some floats.
func (b *bench) alloc(floats int, use kernels.Use) kernels.Buffer {
	if b.err != nil || floats <= 0 {
		return kernels.Buffer{}
	}
	x, err := b.dev.Alloc(4*floats, use)
	if err != nil {
		b.err = err
		return kernels.Buffer{}
	}
	b.buffers = append(b.buffers, x)
	return x
}

// seconds is the median time of operations on the stream: the time that the cores worked for them, over the threads. The
// clock would also count the time of others, on a machine with other work.
func (b *bench) seconds(f func()) float64 { return b.median(b.threads, f) }

// median is the median time of f, whose work a number of threads share.
func (b *bench) median(threads int, f func()) float64 {
	if b.err != nil {
		return 0
	}
	f()
	var all []float64
	for began := time.Now(); len(all) < leastRepeats || time.Since(began) < measureFor && len(all) < mostRepeats; {
		start, used := time.Now(), usedTime(threads > 1)
		f()
		if b.s != nil {
			b.err = b.s.Sync()
		}
		if b.err != nil {
			return 0
		}
		took := time.Since(start)
		if cpu := usedTime(threads > 1) - used; threads == 1 && cpu > 0 || cpu > coarse && b.copies == 1 {
			took = min(took, cpu/time.Duration(threads))
		}
		all = append(all, took.Seconds())
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// measureSlice measures the work of a trainer for its slice.
func (b *bench) measureSlice(w *plan.Work) {
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
	defer m.Close()
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
	w.Upload = b.seconds(func() {
		b.s.Upload(in.Dense.Buf, kernels.BytesOf(batch.Dense))
		b.s.Upload(labels, kernels.BytesOf(batch.Labels))
		b.s.Upload(in.Index, kernels.BytesOf(p.Index))
	})
	w.Forward = b.seconds(func() {
		b.s.SigmoidBCE(losses, dlogits.Buf, m.Forward(in).Buf, labels, 1/float32(batch.N))
	})
	var cells kernels.Matrix
	both := b.seconds(func() { // gradients of a pass are those of its forward pass
		b.s.SigmoidBCE(losses, dlogits.Buf, m.Forward(in).Buf, labels, 1/float32(batch.N))
		cells = m.Backward(in, dlogits, func(kernels.Buffer) {})
		in.DivideGrad(b.s, cells)
	})
	w.Backward = max(0, both-w.Forward)
	b.measureSums(w, &p, cells)
}

// measureSums measures the sums of the gradients of each row.
func (b *bench) measureSums(w *plan.Work, p *oracle.Plan, cells kernels.Matrix) {
	if b.err != nil || len(p.Slots) == 0 {
		return
	}
	width := b.outline.Job.Width
	lookups := kernels.Mat(cells.Buf, cells.Buf.Floats()/width, width)
	sums := kernels.Mat(b.alloc(len(p.Slots)*width, kernels.Working), len(p.Slots), width)
	start, pos := b.upload(p.Start), b.upload(p.Pos)
	w.Sum = b.seconds(func() { b.s.SumRows(sums, lookups, start, pos) })
}

// upload copies a list to the device.
func (b *bench) upload(list []int32) kernels.Buffer {
	x := b.alloc(len(list), kernels.Working)
	if b.err == nil && len(list) > 0 {
		b.s.Upload(x, kernels.BytesOf(list))
	}
	return x
}

// measureOwner measures the work of an owner: rows that it sends, updates and protects.
func (b *bench) measureOwner(w *plan.Work) {
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
	w.Serve = b.seconds(func() { b.s.GatherRows(served, table.Columns(0, j.Width), index) })

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
	w.Apply = b.seconds(func() { b.s.UpdateRows(rule, table, at, grads, first, places) })

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

// measureDense measures the update of the dense part and the sums of its gradients.
func (b *bench) measureDense(w *plan.Work) {
	const most = 8 // addends of a measurement
	n := model.ShapeOf(b.outline.ModelConfig()).DenseParams()
	_, rule := b.outline.Rules(1)
	weights, grad, state := b.alloc(n, kernels.Working), b.alloc(n, kernels.Working), b.alloc(rule.Kind.DenseState(n), kernels.Working)
	if b.err != nil || n == 0 {
		return
	}
	w.Update = b.seconds(func() { b.s.UpdateDense(rule, weights, state, grad) })
	trainers := b.outline.Job.Trainers
	if trainers == 1 {
		return
	}
	segment, addends := max(1, n/trainers), min(trainers, most)
	parts := make([]kernels.Buffer, addends)
	for i := range parts {
		parts[i] = b.alloc(segment, kernels.Working)
	}
	if b.err == nil {
		w.Reduce = b.seconds(func() { b.s.Sum(weights.SliceFloats(0, segment), parts) }) * float64(trainers) / float64(addends)
	}
}
