package model

import (
	"fmt"
	"math"

	"github.com/ecrec/ecrec/kernels"
)

// mlp is a chain of linear layers, each followed by ReLU but for, perhaps, the
// last. Layer i maps its input x (b, in) to y = act(x wᵀ + bias) (b, out).
type mlp struct {
	s      kernels.Stream
	layers []layer
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
}

// newMLP lays out the layers' tensors, last layer first, named prefix.2i.
func newMLP(s kernels.Stream, p *Params, prefix string, in int, widths []int, last kernels.Activation) *mlp {
	m := &mlp{s: s}
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
		l.w = p.add(fmt.Sprintf("%s.%d.weight", prefix, 2*i), l.out, l.in)
		l.b = p.add(fmt.Sprintf("%s.%d.bias", prefix, 2*i), l.out, 0)
	}
	return m
}

// bind allocates activations for slices of up to b samples and points the
// layers at their parameters. The last layer's output is given to forward.
func (m *mlp) bind(dev kernels.Device, p *Params, b int) error {
	widest := 0
	for i := range m.layers {
		l := &m.layers[i]
		l.weights = kernels.Mat(l.w.Of(p.Weights), l.out, l.in)
		l.bias = l.b.Of(p.Weights)
		l.dw = kernels.Mat(l.w.Of(p.Grad), l.out, l.in)
		l.db = l.b.Of(p.Grad)
		widest = max(widest, l.in, l.out)
		if i < len(m.layers)-1 {
			var err error
			if l.outputs, err = dev.Alloc(4*b*l.out, kernels.Working); err != nil {
				return fmt.Errorf("model: activations of %s: %w", l.w.Name, err)
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

// draw initialises the layers as the reference DLRM does: weights with variance
// 2/(in+out), biases with 1/out (there normal, here uniform of that variance).
func (m *mlp) draw(p *Params, seed uint64) {
	for i, t := range p.Tensors {
		for _, l := range m.layers {
			switch t.Name {
			case l.w.Name:
				p.draw(m.s, i, seed, math.Sqrt(2/float64(l.in+l.out)))
			case l.b.Name:
				p.draw(m.s, i, seed, math.Sqrt(1/float64(l.out)))
			}
		}
	}
}

// forward computes the chain on x (b, in) into y (b, out of the last layer).
func (m *mlp) forward(x, y kernels.Matrix) {
	for i := range m.layers {
		l := &m.layers[i]
		l.x, l.y = x, y
		if i < len(m.layers)-1 {
			l.y = kernels.Mat(l.outputs, x.Rows, l.out)
		}
		m.s.Linear(l.y, l.x, l.weights, l.bias, l.act)
		x = l.y
	}
}

// backward computes the layers' gradients from dy, the gradient of the last
// layer before its activation, and returns that of the input x, or nothing where
// wantInput is false. done is called with each layer, last first.
func (m *mlp) backward(dy kernels.Matrix, wantInput bool, done func(*layer)) kernels.Matrix {
	for i := len(m.layers) - 1; i >= 0; i-- {
		l := &m.layers[i]
		m.s.LinearGradWeight(l.dw, l.db, dy, l.x)
		done(l)
		if i == 0 && !wantInput {
			return kernels.Matrix{}
		}
		dx := kernels.Mat(m.back[i%2], dy.Rows, l.in)
		gate := kernels.Matrix{}
		if i > 0 {
			gate = l.x // the ReLU output of the layer below
		}
		m.s.LinearGradInput(dx, dy, l.weights, gate)
		dy = dx
	}
	return dy
}

// gemms runs the chain's bare matrix products, without bias, activation, gate
// or bias gradient, over b samples of whatever the last step left.
func (m *mlp) gemms(b int, wantInput bool) {
	for i := range m.layers {
		l := &m.layers[i]
		m.s.Linear(l.y.RowRange(0, b), l.x.RowRange(0, b), l.weights, kernels.Buffer{}, kernels.Identity)
	}
	for i := len(m.layers) - 1; i >= 0; i-- {
		l := &m.layers[i]
		dy := kernels.Mat(m.back[(i+1)%2], b, l.out)
		m.s.LinearGradWeight(l.dw, kernels.Buffer{}, dy, l.x.RowRange(0, b))
		if i > 0 || wantInput {
			m.s.LinearGradInput(kernels.Mat(m.back[i%2], b, l.in), dy, l.weights, kernels.Matrix{})
		}
	}
}

// free gives the activations back.
func (m *mlp) free(dev kernels.Device) {
	for _, l := range m.layers {
		freeAll(dev, l.outputs)
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
