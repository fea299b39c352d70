package modeltest

import (
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// Linear is a model kind for tests: a DLRM whose logit also has a weight of its own
// for each id of the sample. The weight is the last float of the id's row, so rows
// are wider than the embedding.
var Linear = model.Kind{
	Name:  "dlrm-linear",
	Doc:   "for tests: dlrm, and a weight per id that is added to the logit",
	Keys:  []string{"bottom_mlp", "top_mlp"},
	Check: func(c model.Config) error { return model.Check(dlrmOf(c)) },
	Shape: func(c model.Config) model.Shape {
		s := model.ShapeOf(dlrmOf(c))
		s.Row = append(s.Row, model.Part{Name: "linear_l", Width: 1, Group: model.Linear, Init: model.Zero})
		s.Activations += linearFloats(c)
		s.Constants += c.Tables
		s.FLOPs += 2 * float64(c.Tables) // the sum of a sample's weights is a product with ones
		return s
	},
	New: newLinear,
}

// dlrmOf is the config of the DLRM within.
func dlrmOf(c model.Config) model.Config {
	c.Kind = "dlrm"
	return c
}

// linearFloats is how many floats linear allocates for each sample.
func linearFloats(c model.Config) int { return c.Tables + 1 + c.Tables*(c.EmbeddingDim+1) }

type linear struct {
	model.Model // the DLRM
	c           model.Config
	dev         kernels.Device
	s           kernels.Stream
	weights     kernels.Matrix // (b, t): of the ids of each sample
	sums        kernels.Matrix // (b, 1)
	lookups     kernels.Matrix // (b, t*(d+1)): gradients
	ones        kernels.Matrix // (1, t)
}

func newLinear(dev kernels.Device, s kernels.Stream, c model.Config) (model.Model, error) {
	inner, err := model.New(dev, s, dlrmOf(c))
	if err != nil {
		return nil, err
	}
	m := &linear{Model: inner, c: c, dev: dev, s: s}
	for _, a := range []struct {
		m          *kernels.Matrix
		rows, cols int
	}{{&m.weights, c.MaxSamples, c.Tables}, {&m.sums, c.MaxSamples, 1},
		{&m.lookups, c.MaxSamples, c.Tables * (c.EmbeddingDim + 1)}, {&m.ones, 1, c.Tables}} {
		b, err := dev.Alloc(4*a.rows*a.cols, kernels.Working)
		if err != nil {
			m.Close()
			return nil, err
		}
		*a.m = kernels.Mat(b, a.rows, a.cols)
	}
	ones := make([]float32, c.Tables)
	for i := range ones {
		ones[i] = 1
	}
	s.Upload(m.ones.Buf, kernels.BytesOf(ones))
	return m, s.Sync()
}

// inner is the batch as the DLRM sees it.
func (m *linear) inner(in model.Batch) model.Batch { return in.Part(0, m.c.EmbeddingDim) }

func (m *linear) Forward(in model.Batch) kernels.Matrix {
	b := in.Dense.Rows
	logits := m.Model.Forward(m.inner(in))
	weights := m.weights.RowRange(0, b)
	in.Part(m.c.EmbeddingDim, 1).GatherRows(m.s, weights)
	m.addSums(logits, weights)
	return logits
}

// addSums adds the sum of each row of weights, (b, t), to the logits, (b, 1).
func (m *linear) addSums(logits, weights kernels.Matrix) {
	sums := m.sums.RowRange(0, weights.Rows)
	m.s.Linear(sums, weights, m.ones, kernels.Buffer{}, kernels.Identity)
	m.s.Sum(logits.Buf, []kernels.Buffer{logits.Buf, sums.Buf})
}

func (m *linear) Backward(in model.Batch, dlogits kernels.Matrix, ready func(kernels.Buffer)) kernels.Matrix {
	d := m.c.EmbeddingDim
	rows, all := m.Model.Backward(m.inner(in), dlogits, ready), m.lookups.RowRange(0, in.Dense.Rows)
	for t := range m.c.Tables {
		m.s.CopyColumns(all.Columns(t*(d+1), d), rows.Columns(t*d, d))
		m.s.CopyColumns(all.Columns(t*(d+1)+d, 1), dlogits)
	}
	return all
}

func (m *linear) GEMMs(b int) {
	m.Model.GEMMs(b)
	m.s.Linear(m.sums.RowRange(0, b), m.weights.RowRange(0, b), m.ones, kernels.Buffer{}, kernels.Identity)
}

func (m *linear) Close() {
	m.Model.Close()
	for _, x := range []kernels.Matrix{m.weights, m.sums, m.lookups, m.ones} {
		if x.Buf.Bytes() > 0 {
			m.dev.Free(x.Buf)
		}
	}
}
