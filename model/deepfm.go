package model

import "github.com/ecrec/ecrec/kernels"

// deepfm is DeepFM (Guo et al., "DeepFM: A Factorization-Machine based Neural Network for CTR
// Prediction", 2017): its logit is a linear term, the second-order term of a factorization machine
// over the vectors of a sample, and an MLP over the same vectors side by side. The vectors are the
// embeddings; with Config.DenseEmbedding those of the dense features go before them, each the
// feature's value times a vector of its own. The linear weight of an id is the last column of its
// row.
type deepfm struct {
	network
	mlp     *mlp
	bias    Tensor // of the linear term
	vectors Tensor // (n, d), of dense features; zero without them
	slopes  Tensor // (1, n), linear weights of dense features; zero without them

	feats   kernels.Matrix // (b, f*d): vectors of the n dense features, then of the t tables
	weights kernels.Matrix // (b, t): linear weights of the ids; then their gradients
	lookups kernels.Matrix // (b, t*(d+1)): gradients

	// The terms of the logit, and their sum, (b, 1). numbers is the linear term of dense features.
	linear, numbers, pairs, deep, logits kernels.Matrix
}

// deepfmKind is the registry's entry.
var deepfmKind = Kind{
	Name:      "deepfm",
	Doc:       "DeepFM: a linear weight per id, a factorization machine and an MLP over the embedding rows",
	Keys:      []string{"top_mlp", "dense_embedding", "batch_norm", "dropout"},
	BatchNorm: true,
	Check:     checkDeepFM,
	Shape:     shapeOfDeepFM,
	Draw:      drawDeepFM,
	New:       newDeepFM,
}

func checkDeepFM(c Config) error {
	if last(c.TopMLP) != 1 {
		return keyError("top_mlp", "ends in %d, but the model has one output; end it in 1", last(c.TopMLP))
	}
	if c.DenseEmbedding && c.Dense == 0 {
		return keyError("dense_embedding", "the data has no dense features; remove the key")
	}
	return nil
}

// layoutDeepFM lays out the tensors. It allocates nothing.
func layoutDeepFM(c Config) *deepfm {
	const std = 0.01 // of the vectors of dense features, whose values reach 10 and more
	m := &deepfm{network: network{c: c}}
	t, d, f := c.Tables, c.EmbeddingDim, m.countVectors()
	m.mlp = m.addNormedMLP("top_l", "bn", f*d, c.TopMLP, len(c.TopMLP)-1, kernels.Identity)
	m.addMatrix(&m.feats, f*d)
	m.addMatrix(&m.weights, t)
	m.addMatrix(&m.lookups, t*(d+1))
	for _, term := range []*kernels.Matrix{&m.linear, &m.pairs, &m.deep, &m.logits} {
		m.addMatrix(term, 1)
	}
	if n := m.countNumbers(); n > 0 {
		m.vectors = m.addDrawn("emb_dense.weight", n, d, std)
		m.slopes = m.addDrawn("linear_dense.weight", 1, n, std)
		m.addMatrix(&m.numbers, 1)
	}
	m.bias = m.addDrawn("linear.bias", 1, 0, 0)
	m.allOnes = t
	return m
}

// countNumbers is the number of dense features that have vectors.
func (m *deepfm) countNumbers() int {
	if m.c.DenseEmbedding {
		return m.c.Dense
	}
	return 0
}

// countVectors is the number of vectors of a sample.
func (m *deepfm) countVectors() int { return m.countNumbers() + m.c.Tables }

func shapeOfDeepFM(c Config) Shape {
	m := layoutDeepFM(c)
	linear := 2*float64(c.Tables) + 4*float64(m.countNumbers()) // a product with ones; with slopes and its gradient
	s := m.shapeOf(m.mlp.flopsPerSample(true)+linear, linearPart)
	s.SkipsDense = c.Dense > 0 && !c.DenseEmbedding
	return s
}

func newDeepFM(dev kernels.Device, s kernels.Stream, c Config) (Model, error) {
	m := layoutDeepFM(c)
	if err := m.startModel(dev, s); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *deepfm) Forward(in Batch) kernels.Matrix {
	b, t, d, n, f := in.Dense.Rows, m.c.Tables, m.c.EmbeddingDim, m.countNumbers(), m.countVectors()
	feats, weights := m.feats.RowRange(0, b), m.weights.RowRange(0, b)
	in.Part(0, d).GatherRows(m.s, feats.Columns(n*d, t*d))
	in.Part(d, 1).GatherRows(m.s, weights)
	linear, pairs, deep, logits := m.linear.RowRange(0, b), m.pairs.RowRange(0, b), m.deep.RowRange(0, b), m.logits.RowRange(0, b)
	m.s.Linear(linear, weights, kernels.Mat(m.ones, 1, t), m.bias.Of(m.params.Weights), kernels.Identity)
	terms := append(make([]kernels.Buffer, 0, 4), linear.Buf)
	if n > 0 {
		m.s.ScaleVectors(feats.Columns(0, n*d), in.Dense, m.vectors.viewMatrix(m.params.Weights))
		numbers := m.numbers.RowRange(0, b)
		m.s.Linear(numbers, in.Dense, m.slopes.viewMatrix(m.params.Weights), kernels.Buffer{}, kernels.Identity)
		terms = append(terms, numbers.Buf)
	}
	m.s.FM(pairs, feats, f, d)
	m.mlp.forward(in, feats, deep)
	m.s.Sum(logits.Buf, append(terms, pairs.Buf, deep.Buf))
	return logits
}

func (m *deepfm) Backward(in Batch, dlogits kernels.Matrix, ready func(kernels.Buffer)) kernels.Matrix {
	b, d, n := in.Dense.Rows, m.c.EmbeddingDim, m.countNumbers()
	bk := bucketer{params: &m.params, ready: ready}
	dfeats := m.mlp.backward(in, dlogits, true, bk.addLayer)
	m.s.FMGrad(dfeats, dlogits, m.feats.RowRange(0, b), m.countVectors(), d)
	if n > 0 {
		m.s.ScaleVectorsGrad(m.vectors.viewMatrix(m.params.Grad), in.Dense, dfeats.Columns(0, n*d))
		bk.addTensor(m.vectors)
		m.s.LinearGradWeight(m.slopes.viewMatrix(m.params.Grad), kernels.Buffer{}, dlogits, in.Dense)
		bk.addTensor(m.slopes)
	}
	m.s.ColumnSums(m.bias.Of(m.params.Grad), dlogits)
	bk.addTensor(m.bias)
	bk.handOut()
	return m.joinGradients(dfeats, dlogits)
}

// joinGradients returns the gradients of the lookups: those of the embedding, then that of the
// linear weight, which is the logit's.
func (m *deepfm) joinGradients(dfeats, dlogits kernels.Matrix) kernels.Matrix {
	t, d, n := m.c.Tables, m.c.EmbeddingDim, m.countNumbers()
	lookups := m.lookups.RowRange(0, dlogits.Rows)
	m.s.ExtendVectors(lookups, dfeats.Columns(n*d, t*d), dlogits, d)
	return lookups
}

func (m *deepfm) GEMMs(b int) {
	m.mlp.runGEMMs(b, true)
	ones, weights, none := kernels.Mat(m.ones, 1, m.c.Tables), m.weights.RowRange(0, b), kernels.Buffer{}
	m.s.Linear(m.linear.RowRange(0, b), weights, ones, none, kernels.Identity)
	if n := m.countNumbers(); n > 0 {
		x := m.feats.RowRange(0, b).Columns(0, n)
		m.s.Linear(m.numbers.RowRange(0, b), x, m.slopes.viewMatrix(m.params.Weights), none, kernels.Identity)
		m.s.LinearGradWeight(m.slopes.viewMatrix(m.params.Grad), none, m.numbers.RowRange(0, b), x)
	}
}
