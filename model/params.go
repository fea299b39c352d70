package model

import (
	"fmt"
	"math"

	"github.com/ecrec/ecrec/internal/rng"
	"github.com/ecrec/ecrec/kernels"
)

// Params are the dense parameters of a model, in one flat buffer, and their
// gradients in another of the same layout. Tensors are ordered as the backward pass
// finishes them, so that a bucket is a contiguous range.
//
// Statistics are tensors that training changes without a gradient, such as the running mean of a
// batch norm. They follow the dense parameters in Weights, and are part of the state that is saved
// and compared, but they are no parameters: Grad and the optimizer have nothing for them.
type Params struct {
	Tensors       []Tensor
	Statistics    []Tensor
	Weights, Grad kernels.Buffer

	memory   [2]kernels.Buffer // Weights and Grad are parts of them
	averages []average
	draw     func() // sets all to initial values; nil: they have been
}

// average is a pending update of a statistic, from sums over the global batch.
type average struct {
	statistic int // in Params.Statistics
	sums      kernels.Buffer
	by        int // what the sums are divided by; 0: there is no update
}

// averageRate is the weight of a step in running averages: PyTorch's momentum.
const averageRate = 0.1

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

// Floats is the number of floats of Weights.
func (p *Params) Floats() int {
	n := p.Len()
	for _, t := range p.Statistics {
		n += t.Len()
	}
	return n
}

// Saved lists the tensors of Weights, in order.
func (p *Params) Saved() []Tensor {
	return append(p.Tensors[:len(p.Tensors):len(p.Tensors)], p.Statistics...)
}

// Trained is the part of Weights that holds the dense parameters.
func (p *Params) Trained() kernels.Buffer { return p.Weights.SliceFloats(0, p.Len()) }

// UpdateStatistics updates the running averages with those of the last slice that was trained. It
// follows the updates of the dense parameters, which a step that fails does not reach.
func (p *Params) UpdateStatistics(s kernels.Stream) {
	for i := range p.averages {
		if a := &p.averages[i]; a.by > 0 {
			s.Average(p.Statistics[a.statistic].Of(p.Weights), a.sums, float32(a.by), averageRate)
			a.by = 0
		}
	}
}

// Draw sets parameters and statistics to their initial values, if Config.Blank left them zeros and
// Draw has not been called.
func (p *Params) Draw() {
	if draw := p.draw; draw != nil {
		p.draw = nil
		draw()
	}
}

// addStatistic appends a statistic of n floats, and returns its index. placeStatistics sets its
// offset.
func (p *Params) addStatistic(name string, n int) int {
	p.Statistics = append(p.Statistics, Tensor{Name: name, Rows: n})
	p.averages = append(p.averages, average{statistic: len(p.Statistics) - 1})
	return len(p.Statistics) - 1
}

// placeStatistics sets the offsets of the statistics, after the last addTensor.
func (p *Params) placeStatistics() {
	at := p.Len()
	for i := range p.Statistics {
		p.Statistics[i].Offset = at
		at += p.Statistics[i].Len()
	}
}

// setTensor sets all values of a tensor.
func (p *Params) setTensor(s kernels.Stream, t Tensor, value float32) {
	values := make([]float32, t.Len())
	for i := range values {
		values[i] = value
	}
	s.Upload(t.Of(p.Weights), kernels.BytesOf(values))
}

// addTensor appends a tensor to the layout.
func (p *Params) addTensor(name string, rows, cols int) Tensor {
	t := Tensor{Name: name, Rows: rows, Cols: cols, Offset: p.Len()}
	p.Tensors = append(p.Tensors, t)
	return t
}

// allocFlat allocates the buffers, after the last addTensor.
func (p *Params) allocFlat(dev kernels.Device) (err error) {
	p.placeStatistics()
	at := p.paddingFloats()
	if p.memory[0], err = dev.Alloc(4*(at+p.Floats()), kernels.Working); err == nil {
		p.memory[1], err = dev.Alloc(4*(at+p.Len()), kernels.Shared) // it is added up over the ranks
	}
	if err != nil {
		return fmt.Errorf("model: %d dense parameters: %w", p.Len(), err)
	}
	p.Weights, p.Grad = p.memory[0].SliceFloats(at, p.Floats()), p.memory[1].SliceFloats(at, p.Len())
	return nil
}

// alignFloats is the number of floats that a GPU loads at once, if their address is a multiple of their length.
const alignFloats = 4

// paddingFloats is the number of floats before the first tensor in memory. A top MLP's last layer has one bias, so that without
// them no tensor after it would be aligned. With them most of the elements are in tensors that are.
func (p *Params) paddingFloats() (best int) {
	var aligned [alignFloats]int // elements, by padding
	for _, t := range p.Tensors {
		if t.Cols%alignFloats == 0 { // else most rows of a matrix are not aligned
			aligned[-t.Offset&(alignFloats-1)] += t.Len()
		}
	}
	for padding, n := range aligned {
		if n > aligned[best] {
			best = padding
		}
	}
	return best
}

// drawTensor sets the tensor number i to values uniform with standard deviation std,
// centred on 0: a pure function of (seed, i).
func (p *Params) drawTensor(s kernels.Stream, i int, seed uint64, std float64) {
	t := p.Tensors[i]
	values := make([]float32, t.Len())
	scale := float32(std * math.Sqrt(3))
	var u [4]uint32
	for j := range values {
		if j%4 == 0 {
			u = rng.Draw(seed, rng.DenseInit, uint32(i), uint64(j/4), 0)
		}
		values[j] = rng.Symmetric(u[j%4]) * scale
	}
	s.Upload(t.Of(p.Weights), kernels.BytesOf(values))
}
