package model

import (
	"cmp"
	"fmt"

	"github.com/ecrec/ecrec/kernels"
)

// dcn is the Deep & Cross Network. x0 is the bottom MLP's output and the rows of a sample side by
// side. Stacked: cross layers over x0, then the top MLP. Parallel: the cross layers, and all but
// the last layer of the top MLP, which are its hidden layers, over x0; their outputs side by side are
// the input of the last layer, fc. An empty bottom MLP passes the dense features on, if there are any.
type dcn struct {
	network
	bottom, top *mlp
	cross       *crossLayers
	fc          *mlp           // nil if stacked
	x0          kernels.Matrix // (b, bottom + t*d)
	z           kernels.Matrix // (b, x0 + top): the input of fc
	logits      kernels.Matrix // (b, 1)
}

// dcnKind is the registry's entry.
var dcnKind = Kind{
	Name:     "dcn",
	Doc:      "Deep & Cross: cross layers and the top MLP over the bottom MLP's output and the embedding rows",
	Keys:     []string{bottomMLP, "top_mlp", "cross", "cross_layers", "cross_rank", "structure", "batch_norm", "dropout"},
	Optional: []string{bottomMLP},
	Check:    checkDCN,
	Shape:    shapeOfDCN,
	Draw:     drawDCN,
	New:      newDCN,
}

func checkDCN(c Config) error {
	if err := cmp.Or(checkTop(c), checkForm("cross", c.Cross, Crosses), checkForm("structure", c.Structure, Structures)); err != nil {
		return err
	}
	switch {
	case c.CrossLayers < 1:
		return keyError("cross_layers", "is %d, and dcn needs one at least; write 2 or 3, or use model.kind = \"wdl\"", c.CrossLayers)
	case c.isLowRank() && c.CrossRank < 1:
		return keyError("cross_rank", "is %d, and low-rank cross layers need one at least; write 8, or use model.cross = %q", c.CrossRank, CrossFull)
	case c.Structure == StructureParallel && len(c.TopMLP) < 2:
		return keyError("top_mlp", "has 1 layer, the one over both outputs; give one more before it, or use model.structure = %q", StructureStacked)
	}
	return nil
}

func layoutDCN(c Config) *dcn {
	m := &dcn{network: network{c: c}}
	bottom := widthOf(c.Dense, c.BottomMLP)
	width := bottom + c.Tables*c.EmbeddingDim
	if c.Structure == StructureParallel {
		deep := c.TopMLP[:len(c.TopMLP)-1]
		m.fc = m.addMLP("fc", width+last(deep), c.TopMLP[len(deep):], kernels.Identity)
		m.top = m.addHiddenMLP("top_l", width, deep)
		m.addMatrix(&m.z, width+last(deep))
	} else {
		m.top = m.addMLP("top_l", width, c.TopMLP, kernels.Identity)
	}
	m.cross = m.addCross(width)
	m.bottom = m.addMLP("bot_l", c.Dense, c.BottomMLP, kernels.ReLU)
	m.addMatrix(&m.x0, width)
	m.addMatrix(&m.logits, 1)
	return m
}

func shapeOfDCN(c Config) Shape {
	m := layoutDCN(c)
	flops := m.bottom.flopsPerSample(false) + m.cross.flopsPerSample() + m.top.flopsPerSample(true)
	if m.fc != nil {
		flops += m.fc.flopsPerSample(true)
	}
	return m.shapeOf(flops)
}

func newDCN(dev kernels.Device, s kernels.Stream, c Config) (Model, error) {
	m := layoutDCN(c)
	if err := m.startModel(dev, s); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *dcn) Forward(in Batch) kernels.Matrix {
	b := in.Dense.Rows
	x0, logits := m.x0.RowRange(0, b), m.logits.RowRange(0, b)
	rows := m.c.Tables * m.c.EmbeddingDim
	m.bottom.forward(in, in.Dense, x0.Columns(0, x0.Cols-rows))
	in.GatherRows(m.s, x0.Columns(x0.Cols-rows, rows))
	x := m.cross.runForward(x0)
	if m.fc == nil {
		m.top.forward(in, x, logits)
		return logits
	}
	z := m.z.RowRange(0, b)
	m.s.CopyColumns(z.Columns(0, x.Cols), x)
	m.top.forward(in, x0, z.Columns(x.Cols, z.Cols-x.Cols))
	m.fc.forward(in, z, logits)
	return logits
}

func (m *dcn) Backward(in Batch, dlogits kernels.Matrix, ready func(kernels.Buffer)) kernels.Matrix {
	bk := bucketer{params: &m.params, ready: ready}
	x0 := m.x0.RowRange(0, in.Dense.Rows)
	var dx0 kernels.Matrix
	if m.fc == nil {
		dx0 = m.cross.runBackward(x0, m.top.backward(in, dlogits, true, bk.addLayer), bk.addTensor)
	} else {
		dx0 = m.backwardParallel(in, x0, m.fc.backward(in, dlogits, true, bk.addLayer), &bk)
	}
	rows := m.c.Tables * m.c.EmbeddingDim
	if len(m.c.BottomMLP) > 0 {
		bottom := dx0.Columns(0, x0.Cols-rows)
		m.s.GateReLU(bottom, x0.Columns(0, x0.Cols-rows))
		m.bottom.backward(in, bottom, false, bk.addLayer)
	}
	bk.handOut()
	return dx0.Columns(x0.Cols-rows, rows)
}

// backwardParallel returns the gradient of x0 from that of z.
func (m *dcn) backwardParallel(in Batch, x0, dz kernels.Matrix, bk *bucketer) kernels.Matrix {
	n := x0.Cols
	fromDeep := m.top.backwardHidden(in, dz.Columns(n, dz.Cols-n), bk.addLayer)
	dx0 := m.cross.runBackward(x0, dz.Columns(0, n), bk.addTensor)
	m.s.Sum(dx0.Buf, []kernels.Buffer{dx0.Buf, fromDeep.Buf})
	return dx0
}

func (m *dcn) GEMMs(b int) {
	m.bottom.runGEMMs(b, false)
	m.cross.runGEMMs(b)
	m.top.runGEMMs(b, true)
	if m.fc != nil {
		m.fc.runGEMMs(b, true)
	}
}

func drawDCN(g *Drawing) {
	c := g.Config
	x0 := g.drawInput(true)
	x := x0
	for i := range c.CrossLayers {
		x = drawCross(g, fmt.Sprintf("cross.%d", i), x0, x)
	}
	if c.Structure != StructureParallel {
		g.AddMLP("top_l", x, c.TopMLP, false)
		return
	}
	deep := len(c.TopMLP) - 1
	g.AddMLP("fc", g.Concat(x, g.AddHiddenMLP("top_l", x0, c.TopMLP[:deep])), c.TopMLP[deep:], false)
}
