package concat

import (
	"fmt"
	"math"

	"github.com/ecrec/ecrec/internal/rng"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// Kind is the entry for model.Kinds.
var Kind = model.Kind{
	Name:  "concat",
	Doc:   "dense features and embedding rows side by side, then the two layers of top_mlp",
	Keys:  []string{"top_mlp"},
	Check: check,
	Shape: func(c model.Config) model.Shape { return layout(c).shape() },
	New:   newConcat,
}

func check(c model.Config) error {
	if len(c.TopMLP) != 2 || c.TopMLP[1] != 1 {
		return &model.KeyError{Key: "top_mlp",
			What: fmt.Sprintf("is %v, but concat has two layers, the last of width 1; write [64, 1]", c.TopMLP)}
	}
	return nil
}

// concat computes z = top(relu(hidden(x))), where x is (b, in): the dense features, then the
// embedding rows of the sample.
type concat struct {
	c          model.Config
	dev        kernels.Device
	s          kernels.Stream
	in, hidden int // widths
	params     model.Params
	x, dx      kernels.Matrix // (b, in)
	h, dh      kernels.Matrix // (b, hidden)
	z          kernels.Matrix // (b, 1)
}

// The tensors, in the order in which the backward pass finishes them.
const (
	topWeight = iota
	topBias
	hiddenWeight
	hiddenBias
)

// layout lays out the tensors. It allocates nothing on a device.
func layout(c model.Config) *concat {
	m := &concat{c: c, in: c.Dense + c.Tables*c.EmbeddingDim, hidden: c.TopMLP[0]}
	for _, t := range []model.Tensor{
		topWeight:    {Name: "top.weight", Rows: 1, Cols: m.hidden},
		topBias:      {Name: "top.bias", Rows: 1},
		hiddenWeight: {Name: "hidden.weight", Rows: m.hidden, Cols: m.in},
		hiddenBias:   {Name: "hidden.bias", Rows: m.hidden},
	} {
		t.Offset = m.params.Len()
		m.params.Tensors = append(m.params.Tensors, t)
	}
	return m
}

func (m *concat) shape() model.Shape {
	products := m.in*m.hidden + m.hidden
	return model.Shape{
		Tensors:     m.params.Tensors,
		Row:         []model.Part{{Name: "emb", Width: m.c.EmbeddingDim}},
		Activations: 2*m.in + 2*m.hidden + 1,
		FLOPs:       3 * 2 * float64(products), // output, weight gradient, input gradient
	}
}

func newConcat(dev kernels.Device, s kernels.Stream, c model.Config) (model.Model, error) {
	m := layout(c)
	m.dev, m.s = dev, s
	if err := m.alloc(); err != nil {
		m.Close()
		return nil, err
	}
	m.draw(hiddenWeight, math.Sqrt(6/float64(m.in+m.hidden)))
	m.draw(topWeight, math.Sqrt(6/float64(m.hidden+1)))
	return m, s.Sync()
}

func (m *concat) alloc() (err error) {
	if m.params.Weights, err = m.dev.Alloc(4*m.params.Len(), kernels.Working); err != nil {
		return err
	}
	if m.params.Grad, err = m.dev.Alloc(4*m.params.Len(), kernels.Shared); err != nil { // all-reduced
		return err
	}
	b := m.c.MaxSamples
	for _, a := range []struct {
		m    *kernels.Matrix
		cols int
	}{{&m.x, m.in}, {&m.dx, m.in}, {&m.h, m.hidden}, {&m.dh, m.hidden}, {&m.z, 1}} {
		buf, err := m.dev.Alloc(4*b*a.cols, kernels.Working)
		if err != nil {
			return err
		}
		*a.m = kernels.Mat(buf, b, a.cols)
	}
	return nil
}

// draw sets a tensor to values uniform in (-bound, bound): a function of the seed. Biases stay 0.
func (m *concat) draw(tensor int, bound float64) {
	t := m.params.Tensors[tensor]
	values := make([]float32, t.Len())
	for i := range values {
		values[i] = rng.Symmetric(rng.Draw(m.c.Seed, rng.DenseInit, uint32(tensor), uint64(i), 0)[0]) * float32(bound)
	}
	m.s.Upload(t.Of(m.params.Weights), kernels.BytesOf(values))
}

func (m *concat) Params() *model.Params { return &m.params }

// matrix is a tensor's part of the weights or the gradient, as a matrix.
func (m *concat) matrix(tensor int, flat kernels.Buffer) kernels.Matrix {
	t := m.params.Tensors[tensor]
	return kernels.Mat(t.Of(flat), t.Rows, t.Cols)
}

func (m *concat) vector(tensor int, flat kernels.Buffer) kernels.Buffer {
	return m.params.Tensors[tensor].Of(flat)
}

func (m *concat) Forward(in model.Batch) kernels.Matrix {
	b, w := in.Dense.Rows, m.params.Weights
	x, h, z := m.x.RowRange(0, b), m.h.RowRange(0, b), m.z.RowRange(0, b)
	m.s.CopyColumns(x.Columns(0, m.c.Dense), in.Dense)
	in.GatherRows(m.s, x.Columns(m.c.Dense, m.in-m.c.Dense))
	m.s.Linear(h, x, m.matrix(hiddenWeight, w), m.vector(hiddenBias, w), kernels.ReLU)
	m.s.Linear(z, h, m.matrix(topWeight, w), m.vector(topBias, w), kernels.Identity)
	return z
}

func (m *concat) Backward(in model.Batch, dz kernels.Matrix, ready func(kernels.Buffer)) kernels.Matrix {
	b, w, g := in.Dense.Rows, m.params.Weights, m.params.Grad
	x, dx, h, dh := m.x.RowRange(0, b), m.dx.RowRange(0, b), m.h.RowRange(0, b), m.dh.RowRange(0, b)
	m.s.LinearGradWeight(m.matrix(topWeight, g), m.vector(topBias, g), dz, h)
	ready(g.SliceFloats(0, m.params.Tensors[hiddenWeight].Offset))
	m.s.LinearGradInput(dh, dz, m.matrix(topWeight, w), h) // h gates: it is the output of a ReLU
	m.s.LinearGradWeight(m.matrix(hiddenWeight, g), m.vector(hiddenBias, g), dh, x)
	ready(g.SliceFloats(m.params.Tensors[hiddenWeight].Offset, m.params.Len()-m.params.Tensors[hiddenWeight].Offset))
	m.s.LinearGradInput(dx, dh, m.matrix(hiddenWeight, w), kernels.Matrix{})
	return dx.Columns(m.c.Dense, m.in-m.c.Dense)
}

// GEMMs runs the products of Forward and Backward, without bias and gate.
func (m *concat) GEMMs(b int) {
	w, g, none := m.params.Weights, m.params.Grad, kernels.Buffer{}
	x, dx, h, dh, z := m.x.RowRange(0, b), m.dx.RowRange(0, b), m.h.RowRange(0, b), m.dh.RowRange(0, b), m.z.RowRange(0, b)
	m.s.Linear(h, x, m.matrix(hiddenWeight, w), none, kernels.Identity)
	m.s.Linear(z, h, m.matrix(topWeight, w), none, kernels.Identity)
	m.s.LinearGradWeight(m.matrix(topWeight, g), none, z, h)
	m.s.LinearGradInput(dh, z, m.matrix(topWeight, w), kernels.Matrix{})
	m.s.LinearGradWeight(m.matrix(hiddenWeight, g), none, dh, x)
	m.s.LinearGradInput(dx, dh, m.matrix(hiddenWeight, w), kernels.Matrix{})
}

func (m *concat) Close() {
	for _, b := range []kernels.Buffer{m.params.Weights, m.params.Grad, m.x.Buf, m.dx.Buf, m.h.Buf, m.dh.Buf, m.z.Buf} {
		if b.Bytes() > 0 {
			m.dev.Free(b)
		}
	}
}
