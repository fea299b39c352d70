package model

import "github.com/ecrec/ecrec/kernels"

// sideBySide is the DLRM without dots. The input of the top MLP is the bottom MLP's output, if there
// are dense features, and beside it the rows of the sample, or their sum.
type sideBySide struct {
	network
	bottom, top *mlp
	x           kernels.Matrix // (b, bottom + t*d), or (b, bottom + d)
	logits      kernels.Matrix // (b, 1)

	// With sums. Lookup l is of sample l/t: firsts, with one more, are the samples' first lookups.
	summed                   bool
	rows                     kernels.Matrix // (b, t*d): of each lookup, then their gradients
	firsts, lookups, samples kernels.Buffer
}

func layoutSideBySide(c Config) *sideBySide {
	m := &sideBySide{network: network{c: c}, summed: c.Interaction == InteractionSum}
	t, d := c.Tables, c.EmbeddingDim
	width := last(c.BottomMLP) + t*d
	if m.summed {
		width = last(c.BottomMLP) + d
		m.addMatrix(&m.rows, t*d)
		m.addIndexes(&m.firsts, 1, 1, func(i int) int { return i * t })
		m.addIndexes(&m.lookups, t, 0, func(i int) int { return i })
		m.addIndexes(&m.samples, t, 0, func(i int) int { return i / t })
	}
	m.top = m.addMLP("top_l", width, c.TopMLP, kernels.Identity)
	m.bottom = m.addMLP("bot_l", c.Dense, c.BottomMLP, kernels.ReLU)
	m.addMatrix(&m.x, width)
	m.addMatrix(&m.logits, 1)
	return m
}

func shapeOfSideBySide(c Config) Shape {
	m := layoutSideBySide(c)
	return m.shapeOf(m.bottom.flopsPerSample(false) + m.top.flopsPerSample(true))
}

func newSideBySide(dev kernels.Device, s kernels.Stream, c Config) (Model, error) {
	m := layoutSideBySide(c)
	if err := m.startModel(dev, s); err != nil {
		return nil, err
	}
	return m, nil
}

// splitInput returns the columns of x that are the bottom MLP's output, and the others.
func (m *sideBySide) splitInput(x kernels.Matrix) (bottom, others kernels.Matrix) {
	n := last(m.c.BottomMLP)
	return x.Columns(0, n), x.Columns(n, x.Cols-n)
}

func (m *sideBySide) Forward(in Batch) kernels.Matrix {
	b, t := in.Dense.Rows, m.c.Tables
	x, logits := m.x.RowRange(0, b), m.logits.RowRange(0, b)
	bottom, others := m.splitInput(x)
	m.bottom.forward(in, in.Dense, bottom)
	if m.summed {
		rows := m.rows.RowRange(0, b)
		in.GatherRows(m.s, rows)
		m.s.SumRows(others, rows, m.firsts.SliceFloats(0, b+1), m.lookups.SliceFloats(0, b*t))
	} else {
		in.GatherRows(m.s, others)
	}
	m.top.forward(in, x, logits)
	return logits
}

func (m *sideBySide) Backward(in Batch, dlogits kernels.Matrix, ready func(kernels.Buffer)) kernels.Matrix {
	b, t := in.Dense.Rows, m.c.Tables
	bk := bucketer{params: &m.params, ready: ready}
	dx := m.top.backward(in, dlogits, true, bk.addLayer)
	dbottom, others := m.splitInput(dx)
	if dbottom.Cols > 0 {
		bottom, _ := m.splitInput(m.x.RowRange(0, b))
		m.s.GateReLU(dbottom, bottom)
		m.bottom.backward(in, dbottom, false, bk.addLayer)
	}
	bk.handOut()
	if !m.summed {
		return others
	}
	rows := m.rows.RowRange(0, b)
	m.s.GatherRows(rows, others, m.samples.SliceFloats(0, b*t))
	return rows
}

func (m *sideBySide) GEMMs(b int) {
	m.bottom.runGEMMs(b, false)
	m.top.runGEMMs(b, true)
}
