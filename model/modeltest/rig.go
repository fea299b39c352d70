package modeltest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// rig is a model with a slice of random samples in the memory of the host.
type rig struct {
	dev     kernels.Device
	stream  *counting
	model   model.Model
	config  model.Config
	in      model.Batch
	rows    []float32 // distinct rows, (u, w)
	labels  []float32
	width   int            // weights of a row
	lookups kernels.Matrix // gradients of the last step
}

func device(t *testing.T) kernels.Device {
	t.Helper()
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

func newRig(t *testing.T, c model.Config, r *rand.Rand) *rig {
	t.Helper()
	return newRigOn(t, c, r, 1)
}

// newRigOn is newRig with a number of threads.
func newRigOn(t *testing.T, c model.Config, r *rand.Rand, threads int) *rig {
	t.Helper()
	g := &rig{dev: device(t), config: c, width: model.ShapeOf(c).RowWidth()}
	g.stream = &counting{Stream: g.dev.Stream(threads)}
	var err error
	if g.model, err = model.New(g.dev, g.stream, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.model.Close(); g.stream.Close() })
	dense := make([]float32, samples*c.Dense)
	for i := range dense {
		dense[i] = r.Float32()
	}
	distinct := 3 * c.Tables
	g.rows = make([]float32, distinct*g.width)
	for i := range g.rows {
		g.rows[i] = r.Float32() - 0.5
	}
	index := make([]int32, samples*c.Tables)
	for i := range index {
		index[i] = int32(r.IntN(distinct))
	}
	g.labels = make([]float32, samples)
	for i := range g.labels {
		g.labels[i] = float32(r.IntN(2))
	}
	g.in = model.Batch{
		Dense: kernels.Mat(kernels.HostBuffer(dense), samples, c.Dense),
		Rows:  kernels.Mat(kernels.HostBuffer(g.rows), distinct, g.width),
		Index: kernels.HostBuffer(index),
		Train: true, Step: 1, GlobalN: samples, AddUp: func(kernels.Buffer) {},
	}
	return g
}

// step runs forward and backward. It returns the gradients of the dense parameters
// and of the distinct rows. ready, which may be nil, sees the buckets.
func (g *rig) step(ready func(kernels.Buffer)) (dense, rows []float32) {
	if ready == nil {
		ready = func(kernels.Buffer) {}
	}
	dlogits := make([]float32, samples)
	g.loss(dlogits)
	g.lookups = g.model.Backward(g.in, kernels.Mat(kernels.HostBuffer(dlogits), samples, 1), ready)
	rows = make([]float32, len(g.rows))
	view := kernels.HostView[float32](g.lookups.Buf)
	if g.in.Offsets.Bytes() > 0 {
		return slices.Clone(kernels.HostView[float32](g.model.Params().Grad)), nil // testBags adds up rows
	}
	for l, row := range kernels.HostView[int32](g.in.Index) {
		at := l/g.config.Tables*g.lookups.Stride + l%g.config.Tables*g.width
		for k := range g.width {
			rows[int(row)*g.width+k] += view[at+k]
		}
	}
	return slices.Clone(kernels.HostView[float32](g.model.Params().Grad)), rows
}

// loss is the mean loss; it leaves the gradient of the logits in dlogits.
func (g *rig) loss(dlogits []float32) float64 {
	logits := g.model.Forward(g.in)
	losses := make([]float32, samples)
	g.stream.SigmoidBCE(kernels.HostBuffer(losses), kernels.HostBuffer(dlogits), logits.Buf, kernels.HostBuffer(g.labels), 1.0/samples)
	total := 0.0
	for _, l := range losses {
		total += float64(l)
	}
	return total / samples
}

// slopes are the changes of the loss per change of *w, over a small and a larger change. The small
// one suffers from rounding, the larger one from ReLUs that switch on both sides. smooth is false
// where they differ, or the slopes up and down: a ReLU switches there.
func (g *rig) slopes(w *float32) (near, far float64, smooth bool) {
	const h = 1.0 / 1024
	near, level := g.slopeOver(w, h/16)
	far, levelToo := g.slopeOver(w, h)
	return near, far, level && levelToo && agree(near, far)
}

// slopeOver is the mean of the slopes from *w to h above and below, and whether they agree.
func (g *rig) slopeOver(w *float32, h float32) (slope float64, level bool) {
	scratch := make([]float32, samples)
	was, here := *w, g.loss(scratch)
	*w = was + h
	up := (g.loss(scratch) - here) / float64(h)
	*w = was - h
	down := (here - g.loss(scratch)) / float64(h)
	*w = was
	return (up + down) / 2, agree(up, down)
}

// agree reports whether two slopes differ by less than rounding and curvature explain.
func agree(a, b float64) bool { return math.Abs(a-b) < 1e-3+0.02*math.Abs(a) }

// counted is a device that counts the bytes allocated and not freed.
type counted struct {
	kernels.Device
	bytes int
}

func (d *counted) Alloc(bytes int, use kernels.Use) (kernels.Buffer, error) {
	b, err := d.Device.Alloc(bytes, use)
	d.bytes += b.Bytes()
	return b, err
}

func (d *counted) Free(b kernels.Buffer) {
	d.bytes -= b.Bytes()
	d.Device.Free(b)
}

// counting is a stream that counts the FLOPs of matrix products.
type counting struct {
	kernels.Stream
	flops float64
}

func (s *counting) count(m, n, k int) { s.flops += 2 * float64(m) * float64(n) * float64(k) }

func (s *counting) Linear(y, x, w kernels.Matrix, b kernels.Buffer, act kernels.Activation) {
	s.count(y.Rows, y.Cols, x.Cols)
	s.Stream.Linear(y, x, w, b, act)
}

func (s *counting) LinearGradInput(dx, dy, w, gate kernels.Matrix) {
	s.count(dx.Rows, dx.Cols, dy.Cols)
	s.Stream.LinearGradInput(dx, dy, w, gate)
}

func (s *counting) LinearGradWeight(dw kernels.Matrix, db kernels.Buffer, dy, x kernels.Matrix) {
	s.count(dw.Rows, dw.Cols, dy.Rows)
	s.Stream.LinearGradWeight(dw, db, dy, x)
}
