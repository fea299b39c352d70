package model

import (
	"fmt"

	"github.com/ecrec/ecrec/kernels"
)

// norm is a batch norm over the global batch (Ioffe and Szegedy, "Batch Normalization", 2015) of a
// layer's outputs before their activation, as PyTorch's BatchNorm1d: the biased variance
// normalises, and the running variance averages the unbiased one.
//
// Mean and variance take two passes over the batch. Each trainer adds up its slice in sample
// order, and Batch.AddUp adds up the trainers' sums in the order of their ranks. So the result
// depends on the number of trainers, and on nothing else.
//
// A global batch of one sample has variance 0: its outputs are the offsets. It has no unbiased
// variance, so the running variance stays.
type norm struct {
	s           kernels.Stream
	params      *Params
	width       int
	gamma, beta Tensor
	mean, vari  int // of Params.Statistics
	memory      kernels.Buffer
	batch       kernels.Norm   // the step's
	sums        kernels.Buffer // of x, over the global batch
	squares     kernels.Buffer // of its differences from the mean
	grads       kernels.Buffer // dgamma, then dbeta, over the global batch
	x           kernels.Matrix // input of the last forward
	inputs      kernels.Buffer // x's memory
	samples     int            // of the last global batch
}

const (
	normEps    = 1e-5
	normFloats = 6 // for each column, beside the tensors
)

// newNorm lays out the tensors of a norm.
func newNorm(p *Params, name string, width int) *norm {
	return &norm{params: p, width: width, gamma: p.addTensor(name+".weight", width, 0), beta: p.addTensor(name+".bias", width, 0),
		mean: p.addStatistic(name+".running_mean", width), vari: p.addStatistic(name+".running_var", width)}
}

// bindParams allocates memory for slices of up to b samples.
func (n *norm) bindParams(dev kernels.Device, s kernels.Stream, b int) (err error) {
	n.s = s
	if n.inputs, err = dev.Alloc(4*b*n.width, kernels.Working); err == nil {
		n.memory, err = dev.Alloc(4*normFloats*n.width, kernels.Shared) // most of it is added up over the ranks
	}
	if err != nil {
		return fmt.Errorf("model: batch norm of %d columns: %w", n.width, err)
	}
	part := func(i, count int) kernels.Buffer { return n.memory.SliceFloats(i*n.width, count*n.width) }
	n.batch = kernels.Norm{Mean: part(0, 1), Inv: part(1, 1), Gamma: n.gamma.Of(n.params.Weights), Beta: n.beta.Of(n.params.Weights)}
	n.sums, n.squares, n.grads = part(2, 1), part(3, 1), part(4, 2)
	return nil
}

// drawTensors sets the initial values.
func (n *norm) drawTensors() {
	n.params.setTensor(n.s, n.gamma, 1)
	n.params.setTensor(n.s, n.beta, 0)
	n.params.setTensor(n.s, n.params.Statistics[n.mean], 0)
	n.params.setTensor(n.s, n.params.Statistics[n.vari], 1)
}

// forward computes y = act(norm(x)) of a slice. A slice that is not trained is normalised by the
// running statistics.
func (n *norm) forward(in Batch, y, x kernels.Matrix, act kernels.Activation) {
	k := n.batch
	if !in.Train {
		k.Mean = n.params.Statistics[n.mean].Of(n.params.Weights)
		n.s.InverseRoot(k.Inv, n.params.Statistics[n.vari].Of(n.params.Weights), 1, normEps)
		n.s.BatchNorm(y, x, k, act)
		return
	}
	n.x, n.samples = x, in.GlobalN
	n.s.ColumnSums(n.sums, x)
	in.addUp(n.sums)
	n.s.Average(k.Mean, n.sums, float32(n.samples), 1)
	n.s.ColumnSquares(n.squares, x, k.Mean)
	in.addUp(n.squares)
	n.s.InverseRoot(k.Inv, n.squares, float32(n.samples), normEps)
	n.s.BatchNorm(y, x, k, act)
	n.params.averages[n.mean] = average{n.mean, n.sums, n.samples}
	n.params.averages[n.vari] = average{n.vari, n.squares, n.samples - 1}
}

// backward replaces dy, the gradient of the norm's output, by that of its input, and computes the
// gradients of its tensors for this slice.
func (n *norm) backward(in Batch, dy kernels.Matrix) {
	dgamma, dbeta := n.gamma.Of(n.params.Grad), n.beta.Of(n.params.Grad)
	n.s.BatchNormSums(dgamma, dbeta, dy, n.x, n.batch)
	n.s.Copy(n.grads.SliceFloats(0, n.width), dgamma)
	n.s.Copy(n.grads.SliceFloats(n.width, n.width), dbeta)
	in.addUp(n.grads)
	n.s.BatchNormGrad(dy, dy, n.x, n.batch, n.grads.SliceFloats(0, n.width), n.grads.SliceFloats(n.width, n.width), n.samples)
}

// addUp is AddUp, which a caller with one trainer need not set.
func (in Batch) addUp(sums kernels.Buffer) {
	if in.AddUp != nil {
		in.AddUp(sums)
	}
}
