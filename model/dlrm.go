package model

import "github.com/ecrec/ecrec/kernels"

// dlrm is the DLRM: the bottom MLP maps dense features to a vector like an
// embedding row; the pairwise dots of that vector and the t rows of a sample
// follow it into the top MLP, whose one output is the logit. Without dense
// features there is no such vector: the dots are those of the rows. sideBySide
// has its other forms.
type dlrm struct {
	network
	bottom, top *mlp
	// feats is (b, f*d): the bottom output, if there is one, then the rows of each
	// table; dfeats its gradient.
	feats, dfeats kernels.Matrix
	// z is (b, bottom + f(f-1)/2): the bottom output, then the dots.
	z      kernels.Matrix
	logits kernels.Matrix // (b, 1)
}

// dlrmKind is the registry's entry.
var dlrmKind = Kind{
	Name:     "dlrm",
	Doc:      "DLRM: interactions of the bottom MLP's output, if the data has numbers, and the embedding rows, then the top MLP",
	Keys:     []string{bottomMLP, "top_mlp", "interaction", "batch_norm", "dropout"},
	Optional: []string{bottomMLP},
	Check:    checkDLRM,
	Shape:    shapeOfDLRM,
	Draw:     drawDLRM,
	New:      newDLRM,
}

func checkDLRM(c Config) error {
	if err := checkForm("interaction", c.Interaction, Interactions); err != nil {
		return err
	}
	switch n := last(c.BottomMLP); {
	case c.Dense > 0 && n == 0:
		return keyError(bottomMLP, "is empty, but the data has %d numbers a sample, which dlrm reads through it; give it layers, the last of %d, or use model.kind = \"wdl\"",
			c.Dense, c.EmbeddingDim)
	case c.Dense > 0 && n != c.EmbeddingDim && !c.isSideBySide():
		return keyError(bottomMLP, "ends in %d, but dlrm multiplies it with embeddings of %d (model.embedding_dim); make them equal",
			n, c.EmbeddingDim)
	case c.Dense == 0 && c.Tables < 2 && !c.isSideBySide():
		return keyError("interaction", "%q needs two vectors, and the data has one category and no numbers; name more columns in [data.csv], or use model.interaction = %q",
			InteractionDot, InteractionCat)
	}
	return checkTop(c)
}

// isSideBySide reports whether the DLRM has no dots.
func (c Config) isSideBySide() bool {
	return c.Interaction == InteractionCat || c.Interaction == InteractionSum
}

// layoutDLRM lays out the tensors. It allocates nothing.
func layoutDLRM(c Config) *dlrm {
	m := &dlrm{network: network{c: c}}
	d, f := c.EmbeddingDim, m.countVectors()
	width := last(c.BottomMLP) + f*(f-1)/2
	m.top = m.addMLP("top_l", width, c.TopMLP, kernels.Identity)
	m.bottom = m.addMLP("bot_l", c.Dense, c.BottomMLP, kernels.ReLU)
	m.addMatrix(&m.feats, f*d)
	m.addMatrix(&m.dfeats, f*d)
	m.addMatrix(&m.z, width)
	m.addMatrix(&m.logits, 1)
	return m
}

func shapeOfDLRM(c Config) Shape {
	if c.isSideBySide() {
		return shapeOfSideBySide(c)
	}
	m := layoutDLRM(c)
	return m.shapeOf(m.bottom.flopsPerSample(false) + m.top.flopsPerSample(true))
}

func newDLRM(dev kernels.Device, s kernels.Stream, c Config) (Model, error) {
	if c.isSideBySide() {
		return newSideBySide(dev, s, c)
	}
	m := layoutDLRM(c)
	if err := m.startModel(dev, s); err != nil {
		return nil, err
	}
	return m, nil
}

// countVectors is the number of vectors that interact: the bottom output, if there is
// one, and a row of each table.
func (m *dlrm) countVectors() int {
	if len(m.c.BottomMLP) == 0 {
		return m.c.Tables
	}
	return m.c.Tables + 1
}

// splitVectors returns the columns of feats or dfeats that are the bottom output, and those of the rows.
func (m *dlrm) splitVectors(x kernels.Matrix) (bottom, rows kernels.Matrix) {
	n := last(m.c.BottomMLP)
	return x.Columns(0, n), x.Columns(n, x.Cols-n)
}

func (m *dlrm) Forward(in Batch) kernels.Matrix {
	b, d, f := in.Dense.Rows, m.c.EmbeddingDim, m.countVectors()
	feats, z, logits := m.feats.RowRange(0, b), m.z.RowRange(0, b), m.logits.RowRange(0, b)
	bottom, rows := m.splitVectors(feats)
	m.bottom.forward(in, in.Dense, bottom)
	in.GatherRows(m.s, rows)
	m.s.DotInteraction(z, feats, f, d)
	m.top.forward(in, z, logits)
	return logits
}

func (m *dlrm) Backward(in Batch, dlogits kernels.Matrix, ready func(kernels.Buffer)) kernels.Matrix {
	b, d, f := in.Dense.Rows, m.c.EmbeddingDim, m.countVectors()
	feats, dfeats := m.feats.RowRange(0, b), m.dfeats.RowRange(0, b)
	bk := bucketer{params: &m.params, ready: ready}
	dz := m.top.backward(in, dlogits, true, bk.addLayer)
	m.s.DotInteractionGrad(dfeats, dz, feats, f, d)
	dbottom, drows := m.splitVectors(dfeats)
	if dbottom.Cols > 0 {
		bottom, _ := m.splitVectors(feats)
		m.s.GateReLU(dbottom, bottom)
		m.bottom.backward(in, dbottom, false, bk.addLayer)
	}
	bk.handOut()
	return drows
}

func (m *dlrm) GEMMs(b int) {
	m.bottom.runGEMMs(b, false)
	m.top.runGEMMs(b, true)
}
