package model

import (
	"fmt"

	"github.com/ecrec/ecrec/kernels"
)

// dlrm is the DLRM: the bottom MLP maps dense features to a vector like an
// embedding row; the pairwise dots of that vector and the t rows of a sample
// follow it into the top MLP, whose one output is the logit.
type dlrm struct {
	c           Config
	dev         kernels.Device
	s           kernels.Stream
	params      Params
	bottom, top *mlp
	// feats is (b, f*d): the bottom output, then the rows of each table; dfeats its
	// gradient.
	feats, dfeats kernels.Matrix
	// z is (b, d + f(f-1)/2): the bottom output, then the dots.
	z      kernels.Matrix
	logits kernels.Matrix // (b, 1)
}

func newDLRM(dev kernels.Device, s kernels.Stream, c Config) (*dlrm, error) {
	if n := len(c.BottomMLP); n == 0 || c.BottomMLP[n-1] != c.EmbeddingDim {
		return nil, fmt.Errorf("model.bottom_mlp %v: the last width must be model.embedding_dim, %d", c.BottomMLP, c.EmbeddingDim)
	}
	if n := len(c.TopMLP); n == 0 || c.TopMLP[n-1] != 1 {
		return nil, fmt.Errorf("model.top_mlp %v: the last width must be 1", c.TopMLP)
	}
	m := &dlrm{c: c, dev: dev, s: s}
	f := m.features()
	m.top = newMLP(s, &m.params, "top_l", c.EmbeddingDim+f*(f-1)/2, c.TopMLP, kernels.Identity)
	m.bottom = newMLP(s, &m.params, "bot_l", c.Dense, c.BottomMLP, kernels.ReLU)
	if err := m.alloc(); err != nil {
		m.Close()
		return nil, err
	}
	m.top.draw(&m.params, c.Seed)
	m.bottom.draw(&m.params, c.Seed)
	if err := s.Sync(); err != nil { // others may set the parameters from now on
		m.Close()
		return nil, err
	}
	return m, nil
}

// features is the number of vectors that interact: the bottom output and a row
// of each table.
func (m *dlrm) features() int { return m.c.Tables + 1 }

func (m *dlrm) alloc() error {
	if err := m.params.alloc(m.dev); err != nil {
		return err
	}
	b, d, f := m.c.MaxSamples, m.c.EmbeddingDim, m.features()
	for _, mlp := range []*mlp{m.bottom, m.top} {
		if err := mlp.bind(m.dev, &m.params, b); err != nil {
			return err
		}
	}
	for _, a := range []struct {
		m    *kernels.Matrix
		cols int
	}{{&m.feats, f * d}, {&m.dfeats, f * d}, {&m.z, d + f*(f-1)/2}, {&m.logits, 1}} {
		buf, err := m.dev.Alloc(4*b*a.cols, kernels.Working)
		if err != nil {
			return fmt.Errorf("model: activations of %d samples: %w", b, err)
		}
		*a.m = kernels.Mat(buf, b, a.cols)
	}
	return nil
}

func (m *dlrm) Params() *Params { return &m.params }
func (m *dlrm) RowWidth() int   { return m.c.EmbeddingDim }

func (m *dlrm) Forward(in Batch) kernels.Matrix {
	b, d, f := in.Dense.Rows, m.c.EmbeddingDim, m.features()
	feats, z, logits := m.feats.RowRange(0, b), m.z.RowRange(0, b), m.logits.RowRange(0, b)
	m.bottom.forward(in.Dense, feats.Columns(0, d))
	m.s.GatherRows(feats.Columns(d, (f-1)*d), in.Rows, in.Index)
	m.s.DotInteraction(z, feats, f, d)
	m.top.forward(z, logits)
	return logits
}

func (m *dlrm) Backward(in Batch, dlogits kernels.Matrix, ready func(kernels.Buffer)) kernels.Matrix {
	b, d, f := in.Dense.Rows, m.c.EmbeddingDim, m.features()
	feats, dfeats := m.feats.RowRange(0, b), m.dfeats.RowRange(0, b)
	bk := bucketer{params: &m.params, ready: ready}
	dz := m.top.backward(dlogits, true, bk.done)
	m.s.DotInteractionGrad(dfeats, dz, feats, f, d)
	dbottom := dfeats.Columns(0, d)
	m.s.GateReLU(dbottom, feats.Columns(0, d))
	m.bottom.backward(dbottom, false, bk.done)
	bk.flush()
	return dfeats.Columns(d, (f-1)*d)
}

func (m *dlrm) GEMMs(b int) {
	m.bottom.gemms(b, false)
	m.top.gemms(b, true)
}

func (m *dlrm) Close() {
	m.bottom.free(m.dev)
	m.top.free(m.dev)
	freeAll(m.dev, m.feats.Buf, m.dfeats.Buf, m.z.Buf, m.logits.Buf, m.params.Weights, m.params.Grad)
}
