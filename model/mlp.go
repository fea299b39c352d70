package model

import (
	"fmt"
	"math"

	"github.com/ecrec/ecrec/kernels"
)

// mlp is a chain of linear layers, each followed by an activation: ReLU, or
// the one given for the last layer. Without layers it copies its input. Layer i maps its input x
// (b, in) to y = act(x wᵀ + bias) (b, out).
//
// The hidden layers may have a batch norm before their activation, and dropout after it. They are
// all layers but the last, or all.
type mlp struct {
	s      kernels.Stream
	layers []layer
	hidden int             // number of hidden layers
	drop   kernels.Dropout // of the first layer; Rate 0: there is none
	// back holds the gradients of layer inputs, used in turn.
	back [2]kernels.Buffer
}

type layer struct {
	in, out int
	act     kernels.Activation
	w, b    Tensor
	weights kernels.Matrix // (out, in)
	bias    kernels.Buffer
	dw      kernels.Matrix
	db      kernels.Buffer
	x, y    kernels.Matrix // of the last forward
	outputs kernels.Buffer // y's memory, when the mlp owns it
	norm    *norm          // nil: there is none
}

// newMLP lays out the layers' tensors, last layer first, named prefix.2i. The first hidden layers, if
// there are norms, have the batch norms norms.i.
func newMLP(p *Params, prefix string, in int, widths []int, hidden int, last kernels.Activation, norms string) *mlp {
	m := &mlp{hidden: hidden}
	for i, out := range widths {
		l := layer{in: in, out: out, act: kernels.ReLU}
		if i == len(widths)-1 {
			l.act = last
		}
		m.layers = append(m.layers, l)
		in = out
	}
	for i := len(m.layers) - 1; i >= 0; i-- {
		l := &m.layers[i]
		if norms != "" && i < hidden {
			l.norm = newNorm(p, fmt.Sprintf("%s.%d", norms, i), l.out) // its gradient is final before the layer's
		}
		l.w = p.addTensor(fmt.Sprintf("%s.%d.weight", prefix, 2*i), l.out, l.in)
		l.b = p.addTensor(fmt.Sprintf("%s.%d.bias", prefix, 2*i), l.out, 0)
	}
	return m
}

// bindParams allocates activations for slices of up to b samples and points the
// layers at their parameters. The last layer's output is given to forward.
func (m *mlp) bindParams(dev kernels.Device, s kernels.Stream, p *Params, b int) error {
	m.s = s
	widest := m.widestLayer()
	for i := range m.layers {
		l := &m.layers[i]
		l.weights = kernels.Mat(l.w.Of(p.Weights), l.out, l.in)
		l.bias = l.b.Of(p.Weights)
		l.dw = kernels.Mat(l.w.Of(p.Grad), l.out, l.in)
		l.db = l.b.Of(p.Grad)
		if i < len(m.layers)-1 {
			var err error
			if l.outputs, err = dev.Alloc(4*b*kernels.SpreadStride(l.out), kernels.Working); err != nil {
				return fmt.Errorf("model: activations of %s: %w", l.w.Name, err)
			}
		}
		if l.norm != nil {
			if err := l.norm.bindParams(dev, s, b); err != nil {
				return err
			}
		}
	}
	for i := range m.back {
		var err error
		if m.back[i], err = dev.Alloc(4*b*widest, kernels.Working); err != nil {
			return fmt.Errorf("model: gradients of activations: %w", err)
		}
	}
	return nil
}

// widestLayer is the largest stride of an input or output of a layer.
func (m *mlp) widestLayer() (floats int) {
	for _, l := range m.layers {
		floats = max(floats, kernels.SpreadStride(l.in), kernels.SpreadStride(l.out))
	}
	return floats
}

// floatsPerSample is how many floats bindParams allocates for each sample.
func (m *mlp) floatsPerSample() (floats int) {
	for i, l := range m.layers {
		if i < len(m.layers)-1 {
			floats += kernels.SpreadStride(l.out)
		}
		if l.norm != nil {
			floats += l.out // its input
		}
	}
	return floats + len(m.back)*m.widestLayer()
}

// constantFloats is how many floats bindParams allocates beside those of samples.
func (m *mlp) constantFloats() (floats int) {
	for _, l := range m.layers {
		if l.norm != nil {
			floats += normFloats * l.out
		}
	}
	return floats
}

// flopsPerSample counts the matrix products of forward and backward for one
// sample, a multiply-add as two. Without wantInput the first layer's input
// gradient is not computed.
func (m *mlp) flopsPerSample(wantInput bool) (flops float64) {
	for i, l := range m.layers {
		products := 3.0 // output, weight gradient, input gradient
		if i == 0 && !wantInput {
			products = 2
		}
		flops += products * 2 * float64(l.in) * float64(l.out)
	}
	return flops
}

// drawLayers initialises the layers as the reference DLRM does: weights with variance
// 2/(in+out), biases with 1/out (there normal, here uniform of that variance).
func (m *mlp) drawLayers(p *Params, seed uint64) {
	for i, t := range p.Tensors {
		for _, l := range m.layers {
			switch t.Name {
			case l.w.Name:
				p.drawTensor(m.s, i, seed, math.Sqrt(2/float64(l.in+l.out)))
			case l.b.Name:
				p.drawTensor(m.s, i, seed, math.Sqrt(1/float64(l.out)))
			}
		}
	}
	for _, l := range m.layers {
		if l.norm != nil {
			l.norm.drawTensors()
		}
	}
}

// forward computes the chain on x (b, in) into y (b, out of the last layer).
func (m *mlp) forward(in Batch, x, y kernels.Matrix) {
	if len(m.layers) == 0 && x.Cols > 0 {
		m.s.CopyColumns(y, x)
	}
	for i := range m.layers {
		l := &m.layers[i]
		l.x, l.y = x, y
		if i < len(m.layers)-1 {
			l.y = kernels.Spread(l.outputs, x.Rows, l.out)
		}
		if l.norm != nil {
			out := kernels.Mat(l.norm.inputs, x.Rows, l.out)
			m.s.Linear(out, l.x, l.weights, l.bias, kernels.Identity)
			l.norm.forward(in, l.y, out, l.act)
		} else {
			m.s.Linear(l.y, l.x, l.weights, l.bias, l.act)
		}
		if m.drop.Rate > 0 && in.Train && i < m.hidden {
			m.s.Dropout(l.y, m.dropoutOf(in, i))
		}
		x = l.y
	}
}

// dropoutOf is the dropout of layer i in a slice.
func (m *mlp) dropoutOf(in Batch, i int) kernels.Dropout {
	d := m.drop
	d.Step, d.First, d.Layer = in.Step, in.First, d.Layer+i
	return d
}

// backwardHidden is backward of an MLP of hidden layers. Its dy is the gradient of the output, after
// activation and dropout.
func (m *mlp) backwardHidden(in Batch, dy kernels.Matrix, done func(*layer)) kernels.Matrix {
	l := &m.layers[len(m.layers)-1]
	gated := m.inputGrad(len(m.layers), dy.Rows, l.out)
	m.s.CopyColumns(gated, dy)
	m.s.GateReLU(gated, l.y)
	if m.drop.Rate > 0 {
		m.s.Scale(gated.Buf, gated.Buf, m.drop.Scale())
	}
	return m.backward(in, gated, true, done)
}

// backward computes the layers' gradients from dy, the gradient of the last
// layer before its activation, and returns that of the input x, or an empty matrix
// unless wantInput. It calls done with each layer, last first.
func (m *mlp) backward(in Batch, dy kernels.Matrix, wantInput bool, done func(*layer)) kernels.Matrix {
	for i := len(m.layers) - 1; i >= 0; i-- {
		l := &m.layers[i]
		if l.norm != nil {
			l.norm.backward(in, dy)
		}
		m.s.LinearGradWeight(l.dw, l.db, dy, l.x)
		done(l)
		if i == 0 && !wantInput {
			return kernels.Matrix{}
		}
		dx := m.inputGrad(i, dy.Rows, l.in)
		gate := kernels.Matrix{}
		if i > 0 {
			gate = l.x // the ReLU output of the layer below, +0.0 also where a unit was dropped
		}
		m.s.LinearGradInput(dx, dy, l.weights, gate)
		if i > 0 && m.drop.Rate > 0 {
			m.s.Scale(dx.Buf, dx.Buf, m.drop.Scale())
		}
		dy = dx
	}
	return dy
}

// inputGrad is the memory of the gradient (b, width) of the input of layer i, or of the last output if there is no layer i. That of the
// first layer is dense: callers add it to others as one span. The floats between rows of the others are scaled with them, and never read.
func (m *mlp) inputGrad(i, b, width int) kernels.Matrix {
	if i == 0 {
		return kernels.Mat(m.back[0], b, width)
	}
	return kernels.Spread(m.back[i%2], b, width)
}

// runGEMMs runs the chain's bare matrix products, without bias, activation, gate
// or bias gradient, over b samples of the activations of the last step.
func (m *mlp) runGEMMs(b int, wantInput bool) {
	for i := range m.layers {
		l := &m.layers[i]
		m.s.Linear(l.y.RowRange(0, b), l.x.RowRange(0, b), l.weights, kernels.Buffer{}, kernels.Identity)
	}
	for i := len(m.layers) - 1; i >= 0; i-- {
		l := &m.layers[i]
		dy := m.inputGrad(i+1, b, l.out)
		m.s.LinearGradWeight(l.dw, kernels.Buffer{}, dy, l.x.RowRange(0, b))
		if i > 0 || wantInput {
			m.s.LinearGradInput(m.inputGrad(i, b, l.in), dy, l.weights, kernels.Matrix{})
		}
	}
}

// freeActivations gives the activations back.
func (m *mlp) freeActivations(dev kernels.Device) {
	for _, l := range m.layers {
		freeAll(dev, l.outputs)
		if l.norm != nil {
			freeAll(dev, l.norm.inputs, l.norm.memory)
		}
	}
	freeAll(dev, m.back[:]...)
}

func freeAll(dev kernels.Device, bufs ...kernels.Buffer) {
	for _, b := range bufs {
		if b.Bytes() > 0 {
			dev.Free(b)
		}
	}
}
