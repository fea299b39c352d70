package model

import "github.com/ecrec/ecrec/kernels"

// wdl is wide and deep: the bottom MLP's output and the rows of a sample side by side are the
// input of the top MLP, which by default is one linear layer. An empty bottom MLP passes the
// dense features on, if there are any. With Config.Linear a linear model over dense features and ids is added.
type wdl struct {
	network
	bottom, top *mlp
	wide        *wide          // nil without Config.Linear
	x           kernels.Matrix // (b, bottom + t*d)
	logits      kernels.Matrix // (b, 1)
}

// wdlKind is the registry's entry.
var wdlKind = Kind{
	Name:     "wdl",
	Doc:      "wide and deep: the bottom MLP's output and the embedding rows side by side, then the top MLP, a linear layer by default",
	Keys:     []string{bottomMLP, "top_mlp", "linear", "batch_norm", "dropout"},
	Optional: []string{bottomMLP},
	TopMLP:   []int{1},
	Check:    checkTop,
	Shape:    shapeOfWDL,
	Draw:     drawWDL,
	New:      newWDL,
}

func layoutWDL(c Config) *wdl {
	m := &wdl{network: network{c: c}}
	if c.Linear {
		m.wide = m.addWide()
	}
	bottom := widthOf(c.Dense, c.BottomMLP)
	m.top = m.addMLP("top_l", bottom+c.Tables*c.EmbeddingDim, c.TopMLP, kernels.Identity)
	m.bottom = m.addMLP("bot_l", c.Dense, c.BottomMLP, kernels.Identity)
	m.addMatrix(&m.x, bottom+c.Tables*c.EmbeddingDim)
	m.addMatrix(&m.logits, 1)
	return m
}

func shapeOfWDL(c Config) Shape {
	m := layoutWDL(c)
	flops := m.bottom.flopsPerSample(false) + m.top.flopsPerSample(true)
	if m.wide == nil {
		return m.shapeOf(flops)
	}
	return m.shapeOf(flops+m.wide.flopsPerSample(), linearPart)
}

func newWDL(dev kernels.Device, s kernels.Stream, c Config) (Model, error) {
	m := layoutWDL(c)
	if err := m.startModel(dev, s); err != nil {
		return nil, err
	}
	return m, nil
}

// splitInput returns the columns of x that are the bottom MLP's output, and those of the rows.
func (m *wdl) splitInput(x kernels.Matrix) (bottom, rows kernels.Matrix) {
	w := m.c.Tables * m.c.EmbeddingDim
	return x.Columns(0, x.Cols-w), x.Columns(x.Cols-w, w)
}

func (m *wdl) Forward(in Batch) kernels.Matrix {
	b := in.Dense.Rows
	x, logits := m.x.RowRange(0, b), m.logits.RowRange(0, b)
	bottom, rows := m.splitInput(x)
	m.bottom.forward(in, in.Dense, bottom)
	in.Part(0, m.c.EmbeddingDim).GatherRows(m.s, rows)
	m.top.forward(in, x, logits)
	if m.wide != nil {
		m.wide.addLogits(in, logits)
	}
	return logits
}

func (m *wdl) Backward(in Batch, dlogits kernels.Matrix, ready func(kernels.Buffer)) kernels.Matrix {
	bk := bucketer{params: &m.params, ready: ready}
	if m.wide != nil {
		m.wide.gradWeights(in, dlogits)
		bk.addTensor(m.wide.b)
	}
	bottom, rows := m.splitInput(m.top.backward(in, dlogits, true, bk.addLayer))
	m.bottom.backward(in, bottom, false, bk.addLayer)
	bk.handOut()
	if m.wide != nil {
		return m.wide.joinGradients(rows, dlogits)
	}
	return rows
}

func (m *wdl) GEMMs(b int) {
	m.bottom.runGEMMs(b, false)
	m.top.runGEMMs(b, true)
	if m.wide != nil {
		m.wide.runGEMMs(b)
	}
}

func drawWDL(g *Drawing) {
	c := g.Config
	logits := g.AddMLP("top_l", g.drawInput(false), c.TopMLP, false)
	if !c.Linear {
		return
	}
	terms, bias := []string{logits}, []string{"linear.bias"}
	if c.Dense > 0 {
		terms = append(terms, g.Add(Op{Kind: OpLinear, In: []string{ValueDense}, Tensors: []string{"linear.weight", "linear.bias"}}))
		bias = nil
	}
	terms = append(terms, g.Add(Op{Kind: OpSumVectors, In: []string{g.Gather(linearPart)}, Vectors: c.Tables, Width: 1}))
	g.Add(Op{Kind: OpAdd, In: terms, Tensors: bias})
}

// drawInput puts the bottom MLP's output, if there is one, and the embeddings side by side.
func (g *Drawing) drawInput(reluLast bool) string {
	if g.Config.Dense == 0 {
		return g.GatherEmbeddings()
	}
	return g.Concat(g.AddMLP("bot_l", ValueDense, g.Config.BottomMLP, reluLast), g.GatherEmbeddings())
}
