package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ecrec/ecrec/kernels"
)

// rig is a model with a fixed slice, for tests.
type rig struct {
	t      *testing.T
	s      kernels.Stream
	m      Model
	in     Batch
	rows   []float32
	labels []float32
}

func newRig(t *testing.T, c Config, samples int, r *rand.Rand) *rig {
	t.Helper()
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{t: t, s: dev.Stream(1)}
	if g.m, err = New(dev, g.s, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.m.Close(); g.s.Close() })
	dense := make([]float32, samples*c.Dense)
	for i := range dense {
		dense[i] = r.Float32()
	}
	distinct := 3 * c.Tables
	g.rows = make([]float32, distinct*c.EmbeddingDim)
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
	g.in = Batch{
		Dense: kernels.Mat(kernels.HostBuffer(dense), samples, c.Dense),
		Rows:  kernels.Mat(kernels.HostBuffer(g.rows), distinct, c.EmbeddingDim),
		Index: kernels.HostBuffer(index),
	}
	return g
}

// loss is the mean loss; it leaves the gradient of the logits in dlogits.
func (g *rig) loss(dlogits []float32) float64 {
	n := len(g.labels)
	logits := g.m.Forward(g.in)
	losses := make([]float32, n)
	g.s.SigmoidBCE(kernels.HostBuffer(losses), kernels.HostBuffer(dlogits), logits.Buf, kernels.HostBuffer(g.labels), 1/float32(n))
	total := 0.0
	for _, l := range losses {
		total += float64(l)
	}
	return total / float64(n)
}

// slope is the change of the loss per change of *w. smooth is false where the
// slopes up and down differ: a ReLU switches there.
func (g *rig) slope(w *float32) (slope float64, smooth bool) {
	const h = 1.0 / 1024
	scratch := make([]float32, len(g.labels))
	was, here := *w, g.loss(scratch)
	*w = was + h
	up := (g.loss(scratch) - here) / h
	*w = was - h
	down := (here - g.loss(scratch)) / h
	*w = was
	return (up + down) / 2, math.Abs(up-down) < 1e-3+0.02*math.Abs(up)
}

var small = Config{Kind: "dlrm", Dense: 4, Tables: 5, EmbeddingDim: 6, BottomMLP: []int{7, 6}, TopMLP: []int{9, 8, 1}, Seed: 5, MaxSamples: 16}

// Gradients agree with finite differences, for dense parameters and rows.
func TestGradients(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	g := newRig(t, small, 16, r)
	dlogits := make([]float32, 16)
	g.loss(dlogits)
	lookups := g.m.Backward(g.in, kernels.Mat(kernels.HostBuffer(dlogits), 16, 1), func(kernels.Buffer) {})
	p := g.m.Params()
	grad := append([]float32(nil), kernels.HostView[float32](p.Grad)...)
	rows := make([]float32, len(g.rows))
	d := small.EmbeddingDim
	view, index := kernels.HostView[float32](lookups.Buf), kernels.HostView[int32](g.in.Index)
	for l, row := range index {
		at := l/small.Tables*lookups.Stride + l%small.Tables*d
		for k := range d {
			rows[int(row)*d+k] += view[at+k]
		}
	}
	weights := kernels.HostView[float32](p.Weights)
	kinks := 0
	near := func(what string, got float32, w *float32) {
		want, smooth := g.slope(w)
		if !smooth {
			kinks++
		} else if math.Abs(float64(got)-want) > 1e-3+0.02*math.Abs(want) {
			t.Errorf("%s: gradient %v, slope %v", what, got, want)
		}
	}
	for _, x := range p.Tensors {
		for i := range x.Len() {
			near(fmt.Sprintf("%s[%d]", x.Name, i), grad[x.Offset+i], &weights[x.Offset+i])
		}
	}
	for i := range rows {
		near(fmt.Sprintf("row[%d]", i), rows[i], &g.rows[i])
	}
	if all := p.Len() + len(rows); kinks*4 > all {
		t.Fatalf("%d of %d gradients could not be checked", kinks, all)
	}
}

// Buckets cover the flat gradient once, in order, and each is final when it is
// handed out.
func TestBucketsCoverTheGradient(t *testing.T) {
	c := Config{Kind: "dlrm", Dense: 13, Tables: 26, EmbeddingDim: 16, BottomMLP: []int{512, 256, 16}, TopMLP: []int{600, 512, 1}, MaxSamples: 4}
	g := newRig(t, c, 4, rand.New(rand.NewPCG(1, 1)))
	dlogits := make([]float32, 4)
	g.loss(dlogits)
	var seen [][]float32
	g.m.Backward(g.in, kernels.Mat(kernels.HostBuffer(dlogits), 4, 1), func(b kernels.Buffer) {
		seen = append(seen, append([]float32(nil), kernels.HostView[float32](b)...))
	})
	if len(seen) < 2 {
		t.Fatalf("%d buckets", len(seen))
	}
	at := 0
	grad := kernels.HostView[float32](g.m.Params().Grad)
	for i, b := range seen {
		for j, v := range b {
			if grad[at+j] != v {
				t.Fatalf("bucket %d changed after it was handed out", i)
			}
		}
		at += len(b)
	}
	if at != g.m.Params().Len() {
		t.Fatalf("buckets hold %d of %d gradients", at, g.m.Params().Len())
	}
}

// The shapes of CONFIG.md's DLRM for Criteo Kaggle: its dense parameters count
// 2,962,289, and a sample's logit does not depend on the others in its slice.
func TestKaggleShape(t *testing.T) {
	c := Config{Kind: "dlrm", Dense: 13, Tables: 26, EmbeddingDim: 48, BottomMLP: []int{512, 256, 64, 48},
		TopMLP: []int{1024, 1024, 1024, 256, 128, 1}, MaxSamples: 3}
	g := newRig(t, c, 3, rand.New(rand.NewPCG(2, 2)))
	if n := g.m.Params().Len(); n != 2962289 {
		t.Errorf("%d dense parameters, want 2962289", n)
	}
	all := append([]float32(nil), kernels.HostView[float32](g.m.Forward(g.in).Buf)...)
	for i := range 3 {
		one := Batch{Dense: g.in.Dense.RowRange(i, 1), Rows: g.in.Rows, Index: g.in.Index.SliceFloats(26*i, 26)}
		if got := kernels.HostView[float32](g.m.Forward(one).Buf)[0]; got != all[i] {
			t.Errorf("sample %d alone: %v, among others %v", i, got, all[i])
		}
	}
}

func TestLayersThatDoNotChain(t *testing.T) {
	dev, err := kernels.NewCPU(kernels.CPUOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := dev.Stream(1)
	defer s.Close()
	for _, change := range []func(*Config){
		func(c *Config) { c.BottomMLP = []int{7, 5} },
		func(c *Config) { c.TopMLP = []int{9, 2} },
		func(c *Config) { c.TopMLP = nil },
		func(c *Config) { c.Kind = "bogus" },
	} {
		c := small
		change(&c)
		if m, err := New(dev, s, c); err == nil || m != nil {
			t.Errorf("%+v: no error", c)
		}
	}
}
