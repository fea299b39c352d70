package bench

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// standIn replaces a model that another device would compute in a given time. It
// waits instead of computing, a third of the time forward and two thirds backward, and passes on
// the dense gradient in buckets during the wait.
type standIn struct {
	model.Model
	env     env.Env
	takes   time.Duration
	logits  []float32
	lookups []float32 // gradients, all zero
	floats  int       // gradients of the lookups of a sample
	params  *model.Params
	memory  [][]byte // of params and lookups; nil: they are on the heap
}

// bucketFloats is the least size of a bucket, as in package model.
const bucketFloats = 1 << 18

func newStandIn(e env.Env, m model.Model, floats int, takes time.Duration) *standIn {
	return &standIn{Model: m, env: e, takes: takes, floats: floats, params: m.Params()}
}

// enlarge gives the stand-in a number of dense parameters and their gradients, and gradients of the lookups of some samples, all of
// which are zeros. Only their sizes matter.
func (m *standIn) enlarge(dense, samples int, zeros *repeated) error {
	var buffers [3]kernels.Buffer // weights, gradients, gradients of lookups
	for i, floats := range []int{dense, dense, samples * m.floats} {
		memory, err := zeros.mapBytes(4 * max(1, floats))
		if err != nil {
			return err
		}
		m.memory = append(m.memory, memory)
		buffers[i] = kernels.HostBuffer(memory[:4*floats])
	}
	m.params = &model.Params{Tensors: []model.Tensor{{Name: "stand-in", Rows: dense}}, Weights: buffers[0], Grad: buffers[1]}
	m.lookups = kernels.HostView[float32](buffers[2])
	return nil
}

// Params are those of the model, or as many as enlarge was given.
func (m *standIn) Params() *model.Params { return m.params }

// Close frees the memory of enlarge, and the model.
func (m *standIn) Close() {
	for _, memory := range m.memory {
		unmapRepeated(memory)
	}
	m.memory = nil
	m.Model.Close()
}

// Forward waits; its logits are zero.
func (m *standIn) Forward(in model.Batch) kernels.Matrix {
	b := in.Dense.Rows
	if len(m.logits) < b {
		m.logits = make([]float32, b)
	}
	if len(m.lookups) < b*m.floats {
		m.lookups = make([]float32, b*m.floats)
	}
	if b > 0 {
		m.env.Sleep(m.takes / 3)
	}
	return kernels.Mat(kernels.HostBuffer(m.logits), b, 1)
}

// Backward waits; its gradients are the unchanged buffers.
func (m *standIn) Backward(in model.Batch, _ kernels.Matrix, ready func(kernels.Buffer)) kernels.Matrix {
	b, n := in.Dense.Rows, m.Params().Len()
	buckets := max(1, n/bucketFloats)
	for i := range buckets {
		if b > 0 {
			m.env.Sleep(m.takes * 2 / 3 / time.Duration(buckets))
		}
		from, to := i*n/buckets, (i+1)*n/buckets
		ready(m.Params().Grad.SliceFloats(from, to-from))
	}
	return kernels.Mat(kernels.HostBuffer(m.lookups), b, m.floats)
}
