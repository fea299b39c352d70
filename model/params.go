package model

import (
	"fmt"
	"math"

	"github.com/ecrec/ecrec/internal/rng"
	"github.com/ecrec/ecrec/kernels"
)

// Params are the dense parameters of a model, in one flat buffer, and their
// gradients in another of the same layout. Tensors lie in the order in which the
// backward pass finishes them, so that a bucket is a contiguous range.
type Params struct {
	Tensors       []Tensor
	Weights, Grad kernels.Buffer
}

// Tensor is one named dense parameter, (Rows, Cols) or, with Cols 0, (Rows).
type Tensor struct {
	Name       string
	Rows, Cols int
	Offset     int // in floats
}

// Len is the number of floats of a tensor.
func (t Tensor) Len() int { return t.Rows * max(1, t.Cols) }

// Shape is the tensor's shape as stored in files.
func (t Tensor) Shape() []int64 {
	if t.Cols == 0 {
		return []int64{int64(t.Rows)}
	}
	return []int64{int64(t.Rows), int64(t.Cols)}
}

// Of is the part of a flat buffer that holds t.
func (t Tensor) Of(flat kernels.Buffer) kernels.Buffer { return flat.SliceFloats(t.Offset, t.Len()) }

// Len is the number of dense parameters.
func (p *Params) Len() int {
	if len(p.Tensors) == 0 {
		return 0
	}
	last := p.Tensors[len(p.Tensors)-1]
	return last.Offset + last.Len()
}

// add appends a tensor to the layout.
func (p *Params) add(name string, rows, cols int) Tensor {
	t := Tensor{Name: name, Rows: rows, Cols: cols, Offset: p.Len()}
	p.Tensors = append(p.Tensors, t)
	return t
}

// alloc allocates the buffers once the layout stands.
func (p *Params) alloc(dev kernels.Device) error {
	var err error
	if p.Weights, err = dev.Alloc(4*p.Len(), kernels.Working); err == nil {
		p.Grad, err = dev.Alloc(4*p.Len(), kernels.Shared) // it is added up over the ranks
	}
	if err != nil {
		return fmt.Errorf("model: %d dense parameters: %w", p.Len(), err)
	}
	return nil
}

// draw sets the tensor number i to values uniform with standard deviation std,
// centred on 0: a pure function of (seed, i).
func (p *Params) draw(s kernels.Stream, i int, seed uint64, std float64) {
	t := p.Tensors[i]
	values := make([]float32, t.Len())
	scale := float32(std * math.Sqrt(3))
	for j := range values {
		u := rng.Draw(seed, rng.DenseInit, uint32(i), uint64(j/4), 0)
		values[j] = rng.Symmetric(u[j%4]) * scale
	}
	s.Upload(t.Of(p.Weights), kernels.BytesOf(values))
}
