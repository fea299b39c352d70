package model

import (
	"fmt"
	"math"

	"github.com/ecrec/ecrec/kernels"
)

func (c Config) isLowRank() bool { return c.Cross == CrossLowRank || c.Cross == "" }

// crossLayers is a chain of cross layers over the same x0.
type crossLayers struct {
	n      *network
	width  int // of x0 and x
	rank   int // of low-rank layers, else 0
	vector bool
	layers []crossLayer

	// Of the backward pass. du, (b, width), is the gradient of u, then of the input; dp that of V x,
	// (b, rank), or of w · x, (b, 1), and for full layers the gradient of the input, (b, width). dx and
	// dx0, (b, width), add up the gradients of x and of x0.
	du, dp, dx, dx0 kernels.Matrix
}

// crossLayer computes y = x0 * u + x, where u is (b, width), or (b, 1) for a vector layer.
type crossLayer struct {
	w, v, b Tensor         // v: of a low-rank layer
	x, y, u kernels.Matrix // x: of the last forward
	p       kernels.Matrix // (b, rank): V x
}

// addCross adds the layers to a layout, last layer first.
func (n *network) addCross(width int) *crossLayers {
	c := n.c
	k := &crossLayers{n: n, width: width, vector: c.Cross == CrossVector, layers: make([]crossLayer, c.CrossLayers)}
	if c.isLowRank() {
		k.rank = c.CrossRank
	}
	for i := len(k.layers) - 1; i >= 0; i-- {
		k.addLayer(i)
	}
	n.addMatrix(&k.du, width)
	n.addMatrix(&k.dx, width)
	n.addMatrix(&k.dx0, width)
	switch {
	case k.vector:
		n.addMatrix(&k.dp, 1)
		n.allOnes = max(n.allOnes, width)
	case k.rank > 0:
		n.addMatrix(&k.dp, k.rank)
	default:
		n.addMatrix(&k.dp, width)
	}
	return k
}

// addLayer adds the tensors and matrices of layer i. Weights have variance 2/(in+out), as those of
// linear layers, biases start at 0: each layer then passes x on almost as it is.
func (k *crossLayers) addLayer(i int) {
	l, n, name := &k.layers[i], k.n, fmt.Sprintf("cross.%d", i)
	std := func(in, out int) float64 { return math.Sqrt(2 / float64(in+out)) }
	n.addMatrix(&l.y, k.width)
	switch {
	case k.vector:
		l.w = n.addDrawn(name+".weight", 1, k.width, std(k.width, 1))
		n.addMatrix(&l.u, 1)
	case k.rank > 0:
		l.w = n.addDrawn(name+".w", k.width, k.rank, std(k.rank, k.width))
		l.v = n.addDrawn(name+".v", k.rank, k.width, std(k.width, k.rank))
		n.addMatrix(&l.p, k.rank)
		n.addMatrix(&l.u, k.width)
	default:
		l.w = n.addDrawn(name+".weight", k.width, k.width, std(k.width, k.width))
		n.addMatrix(&l.u, k.width)
	}
	l.b = n.params.addTensor(name+".bias", k.width, 0)
}

// flopsPerSample counts the products of forward and backward. Those of a vector layer are with its
// weight, and in the backward pass with ones too.
func (k *crossLayers) flopsPerSample() float64 {
	w, each := float64(k.width), 0.0
	switch {
	case k.vector:
		each = 4 * 2 * w
	case k.rank > 0:
		each = 3 * 2 * 2 * w * float64(k.rank)
	default:
		each = 3 * 2 * w * w
	}
	return each * float64(len(k.layers))
}

// runForward returns the output of the last layer for the input x0, (b, width), whose rows are not apart.
func (k *crossLayers) runForward(x0 kernels.Matrix) kernels.Matrix {
	s, x, weights := k.n.s, x0, k.n.params.Weights
	for i := range k.layers {
		l := &k.layers[i]
		y, u := l.y.RowRange(0, x.Rows), l.u.RowRange(0, x.Rows)
		l.x = x
		k.multiplyForward(l, x.Rows, l.b.Of(weights))
		if k.vector {
			s.MulAdd(y, x0, u, kernels.Mat(l.b.Of(weights), 1, k.width))
			s.Sum(y.Buf, []kernels.Buffer{y.Buf, x.Buf})
		} else {
			s.MulAdd(y, x0, u, x)
		}
		x = y
	}
	return x
}

// multiplyForward computes the products of a layer's forward pass over b samples of l.x, with a bias that a
// vector layer leaves out.
func (k *crossLayers) multiplyForward(l *crossLayer, b int, bias kernels.Buffer) {
	s, weights, x, u := k.n.s, k.n.params.Weights, l.x.RowRange(0, b), l.u.RowRange(0, b)
	switch {
	case k.vector:
		s.Linear(u, x, l.w.viewMatrix(weights), kernels.Buffer{}, kernels.Identity)
	case k.rank > 0:
		p := l.p.RowRange(0, b)
		s.Linear(p, x, l.v.viewMatrix(weights), kernels.Buffer{}, kernels.Identity)
		s.Linear(u, p, l.w.viewMatrix(weights), bias, kernels.Identity)
	default:
		s.Linear(u, x, l.w.viewMatrix(weights), bias, kernels.Identity)
	}
}

// runBackward computes the layers' gradients from that of the last output, dy (b, width), and returns
// that of x0. It calls done with the last tensor of each layer, last layer first.
func (k *crossLayers) runBackward(x0, dy kernels.Matrix, done func(Tensor)) kernels.Matrix {
	s, b := k.n.s, dy.Rows
	du, dx, dx0 := k.du.RowRange(0, b), k.dx.RowRange(0, b), k.dx0.RowRange(0, b)
	s.CopyColumns(dx, dy)
	for i := len(k.layers) - 1; i >= 0; i-- {
		l, before := &k.layers[i], dx0
		if i == len(k.layers)-1 {
			before = kernels.Matrix{}
		}
		s.MulAdd(du, dx, x0, kernels.Matrix{})
		s.MulAdd(dx0, dx, l.u.RowRange(0, b), before)
		bias := l.b.Of(k.n.params.Grad)
		if k.vector {
			s.ColumnSums(bias, dx)
		}
		in := k.multiplyBack(l, b, bias)
		s.Sum(dx.Buf, []kernels.Buffer{dx.Buf, in.Buf})
		done(l.b)
	}
	s.Sum(dx0.Buf, []kernels.Buffer{dx0.Buf, dx.Buf})
	return dx0
}

// multiplyBack computes the products of a layer's backward pass from k.du over b samples, with the
// column sums of du in bias unless it is empty or of a vector layer. It returns the gradient of the
// layer's products by x.
func (k *crossLayers) multiplyBack(l *crossLayer, b int, bias kernels.Buffer) kernels.Matrix {
	s, weights, grad := k.n.s, k.n.params.Weights, k.n.params.Grad
	x, du, dp := l.x.RowRange(0, b), k.du.RowRange(0, b), k.dp.RowRange(0, b)
	switch {
	case k.vector:
		s.Linear(dp, du, kernels.Mat(k.n.ones, 1, k.width), kernels.Buffer{}, kernels.Identity)
		s.LinearGradWeight(l.w.viewMatrix(grad), kernels.Buffer{}, dp, x)
		s.LinearGradInput(du, dp, l.w.viewMatrix(weights), kernels.Matrix{})
		return du
	case k.rank > 0:
		s.LinearGradWeight(l.w.viewMatrix(grad), bias, du, l.p.RowRange(0, b))
		s.LinearGradInput(dp, du, l.w.viewMatrix(weights), kernels.Matrix{})
		s.LinearGradWeight(l.v.viewMatrix(grad), kernels.Buffer{}, dp, x)
		s.LinearGradInput(du, dp, l.v.viewMatrix(weights), kernels.Matrix{})
		return du
	}
	s.LinearGradWeight(l.w.viewMatrix(grad), bias, du, x)
	s.LinearGradInput(dp, du, l.w.viewMatrix(weights), kernels.Matrix{})
	return dp
}

// runGEMMs runs the products alone, over b samples of the last step.
func (k *crossLayers) runGEMMs(b int) {
	for i := range k.layers {
		k.multiplyForward(&k.layers[i], b, kernels.Buffer{})
	}
	for i := len(k.layers) - 1; i >= 0; i-- {
		k.multiplyBack(&k.layers[i], b, kernels.Buffer{})
	}
}

// drawCross appends a layer to a graph, and returns its output.
func drawCross(g *Drawing, name, x0, x string) string {
	weight, bias := name+".weight", name+".bias"
	switch {
	case g.Config.Cross == CrossVector:
		u := g.Add(Op{Kind: OpLinear, In: []string{x}, Tensors: []string{weight}})
		return g.Add(Op{Kind: OpMulAdd, In: []string{x0, u, x}, Tensors: []string{bias}})
	case g.Config.isLowRank():
		p := g.Add(Op{Kind: OpLinear, In: []string{x}, Tensors: []string{name + ".v"}})
		u := g.Add(Op{Kind: OpLinear, In: []string{p}, Tensors: []string{name + ".w", bias}})
		return g.Add(Op{Kind: OpMulAdd, In: []string{x0, u, x}})
	}
	u := g.Add(Op{Kind: OpLinear, In: []string{x}, Tensors: []string{weight, bias}})
	return g.Add(Op{Kind: OpMulAdd, In: []string{x0, u, x}})
}
