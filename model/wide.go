package model

import (
	"math"

	"github.com/ecrec/ecrec/kernels"
)

// wide is a linear model over the dense features and the ids of a sample: a weight for each
// feature, a bias, and a weight for each id, which is the last float of the id's row.
type wide struct {
	n       *network
	w       Tensor         // linear.weight (1, dense); zero without dense features
	b       Tensor         // linear.bias (1)
	weights kernels.Matrix // (b, t): of the ids of each sample
	dense   kernels.Matrix // (b, 1); empty without dense features
	sums    kernels.Matrix // (b, 1)
	dx      kernels.Matrix // (b, t*(d+1)): gradients of lookups
	x       kernels.Matrix // dense features of the last forward
}

// addWide adds the linear model to a layout.
func (n *network) addWide() *wide {
	w := &wide{n: n}
	if n.c.Dense > 0 {
		w.w = n.addDrawn("linear.weight", 1, n.c.Dense, math.Sqrt(2/float64(n.c.Dense+1)))
		n.addMatrix(&w.dense, 1)
	}
	w.b = n.params.addTensor("linear.bias", 1, 0) // it starts at 0
	n.addMatrix(&w.weights, n.c.Tables)
	n.addMatrix(&w.sums, 1)
	n.addMatrix(&w.dx, n.c.Tables*(n.c.EmbeddingDim+1))
	n.allOnes = max(n.allOnes, n.c.Tables)
	return w
}

// flopsPerSample counts the products over the features, forward and backward, and the sum of the
// ids' weights, which is a product with ones.
func (w *wide) flopsPerSample() float64 { return 2*2*float64(w.n.c.Dense) + 2*float64(w.n.c.Tables) }

// addLogits adds the model's output to the logits, (b, 1): first the sum over the features and the
// bias, then the sum over the ids. Without features the bias belongs to the second sum.
func (w *wide) addLogits(in Batch, logits kernels.Matrix) {
	s, b := w.n.s, logits.Rows
	w.x = in.Dense
	weights, sums := w.weights.RowRange(0, b), w.sums.RowRange(0, b)
	bias, terms := w.b.Of(w.n.params.Weights), append(make([]kernels.Buffer, 0, 3), logits.Buf)
	if in.Dense.Cols > 0 {
		dense := w.dense.RowRange(0, b)
		s.Linear(dense, in.Dense, w.w.viewMatrix(w.n.params.Weights), bias, kernels.Identity)
		bias, terms = kernels.Buffer{}, append(terms, dense.Buf)
	}
	in.Part(w.n.c.EmbeddingDim, 1).GatherRows(s, weights)
	s.Linear(sums, weights, kernels.Mat(w.n.ones, 1, w.n.c.Tables), bias, kernels.Identity)
	s.Sum(logits.Buf, append(terms, sums.Buf))
}

// gradWeights computes the gradients of the features' weights and of the bias.
func (w *wide) gradWeights(in Batch, dlogits kernels.Matrix) {
	grad := w.n.params.Grad
	if in.Dense.Cols == 0 {
		w.n.s.ColumnSums(w.b.Of(grad), dlogits)
		return
	}
	w.n.s.LinearGradWeight(w.w.viewMatrix(grad), w.b.Of(grad), dlogits, in.Dense)
}

// joinGradients returns the gradients of the lookups, (b, t*(d+1)), from those of the embeddings,
// (b, t*d), and of the logits, (b, 1).
func (w *wide) joinGradients(rows, dlogits kernels.Matrix) kernels.Matrix {
	d, dx := w.n.c.EmbeddingDim, w.dx.RowRange(0, rows.Rows)
	w.n.s.ExtendVectors(dx, rows, dlogits, d)
	return dx
}

// runGEMMs runs the products alone, over b samples of the last step.
func (w *wide) runGEMMs(b int) {
	s, ones := w.n.s, kernels.Mat(w.n.ones, 1, w.n.c.Tables)
	s.Linear(w.sums.RowRange(0, b), w.weights.RowRange(0, b), ones, kernels.Buffer{}, kernels.Identity)
	if w.x.Cols == 0 {
		return
	}
	x := w.x.RowRange(0, b)
	s.Linear(w.dense.RowRange(0, b), x, w.w.viewMatrix(w.n.params.Weights), kernels.Buffer{}, kernels.Identity)
	s.LinearGradWeight(w.w.viewMatrix(w.n.params.Grad), kernels.Buffer{}, w.sums.RowRange(0, b), x)
}
