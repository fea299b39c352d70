package model

import (
	"fmt"
	"strings"

	"github.com/ecrec/ecrec/kernels"
)

// network is the common part of the kinds of this package: a config, parameters, MLPs and matrices
// of activations. A layout adds MLPs and tensors in the order in which the backward pass finishes them.
type network struct {
	c        Config
	dev      kernels.Device
	s        kernels.Stream
	params   Params
	mlps     []*mlp
	layers   int           // of mlps
	tensors  []drawnTensor // that are not an MLP's
	matrices []activation  // that are not an MLP's
	ones     kernels.Buffer
	allOnes  int // floats of ones
	lists    []indexList
}

// indexList is a list of int32, perSample*MaxSamples + extra of them.
type indexList struct {
	list             *kernels.Buffer
	perSample, extra int
	at               func(i int) int
}

// activation is a matrix of (b, cols) floats.
type activation struct {
	m    *kernels.Matrix
	cols int
}

// drawnTensor is a tensor and the standard deviation of its initial values.
type drawnTensor struct {
	index int // in Params.Tensors
	std   float64
}

// addMLP adds an MLP to the layout; see newMLP. All its layers but the last are hidden: they have the
// batch norm and the dropout of the config. The norms of top_l are called top_bn.
func (n *network) addMLP(prefix string, in int, widths []int, last kernels.Activation) *mlp {
	return n.addNormedMLP(prefix, normsOf(prefix), in, widths, len(widths)-1, last)
}

// addHiddenMLP adds an MLP all of whose layers are hidden.
func (n *network) addHiddenMLP(prefix string, in int, widths []int) *mlp {
	return n.addNormedMLP(prefix, normsOf(prefix), in, widths, len(widths), kernels.ReLU)
}

// normsOf is the name of the norms of an MLP.
func normsOf(prefix string) string { return strings.TrimSuffix(prefix, "_l") + "_bn" }

// addNormedMLP is addMLP with a name for the norms and a number of hidden layers.
func (n *network) addNormedMLP(prefix, norms string, in int, widths []int, hidden int, last kernels.Activation) *mlp {
	if !n.c.BatchNorm {
		norms = ""
	}
	m := newMLP(&n.params, prefix, in, widths, hidden, last, norms)
	m.drop = kernels.Dropout{Seed: n.c.Seed, Rate: n.c.Dropout, Layer: n.layers}
	n.layers += len(widths)
	n.mlps = append(n.mlps, m)
	return m
}

// addDrawn adds a tensor to the layout, whose initial values have standard deviation std.
func (n *network) addDrawn(name string, rows, cols int, std float64) Tensor {
	n.tensors = append(n.tensors, drawnTensor{len(n.params.Tensors), std})
	return n.params.addTensor(name, rows, cols)
}

// addMatrix adds a matrix of (MaxSamples, cols) floats, which startModel points m at.
func (n *network) addMatrix(m *kernels.Matrix, cols int) {
	n.matrices = append(n.matrices, activation{m, cols})
}

// addIndexes adds a list of int32 to a layout, which startModel points list at and fills with the values of at.
func (n *network) addIndexes(list *kernels.Buffer, perSample, extra int, at func(i int) int) {
	n.lists = append(n.lists, indexList{list, perSample, extra, at})
}

// shapeOf is the shape of the layout. parts follow the embedding in a row.
func (n *network) shapeOf(flops float64, parts ...Part) Shape {
	floats, constants := 0, n.allOnes+len(n.params.memory)*n.params.paddingFloats()
	for _, m := range n.mlps {
		floats += m.floatsPerSample()
		constants += m.constantFloats()
	}
	n.params.placeStatistics()
	for _, a := range n.matrices {
		floats += a.cols
	}
	for _, l := range n.lists {
		floats += l.perSample
		constants += l.extra
	}
	return Shape{
		Tensors:     n.params.Tensors,
		Statistics:  n.params.Statistics,
		Row:         append([]Part{{Name: "emb_l", Width: n.c.EmbeddingDim}}, parts...),
		Activations: floats,
		Constants:   constants,
		FLOPs:       flops,
		AddsUp:      len(n.params.Statistics) > 0, // batch norms
	}
}

// startModel allocates all memory and draws the dense parameters. After an error nothing is left.
func (n *network) startModel(dev kernels.Device, s kernels.Stream) error {
	n.dev, n.s = dev, s
	err := n.allocMemory()
	if err == nil {
		n.setConstants()
		if n.params.draw = n.drawTensors; !n.c.Blank {
			n.params.Draw()
		}
		err = s.Sync() // other streams may set the parameters after this
	}
	if err != nil {
		n.Close()
	}
	return err
}

func (n *network) allocMemory() (err error) {
	if err := n.params.allocFlat(n.dev); err != nil {
		return err
	}
	b := n.c.MaxSamples
	for _, m := range n.mlps {
		if err := m.bindParams(n.dev, n.s, &n.params, b); err != nil {
			return err
		}
	}
	for _, a := range n.matrices {
		buf, err := n.dev.Alloc(4*b*a.cols, kernels.Working)
		if err != nil {
			return fmt.Errorf("model: activations of %d samples: %w", b, err)
		}
		*a.m = kernels.Mat(buf, b, a.cols)
	}
	for _, l := range n.lists {
		if *l.list, err = n.dev.Alloc(4*(b*l.perSample+l.extra), kernels.Working); err != nil {
			return fmt.Errorf("model: indexes of %d samples: %w", b, err)
		}
	}
	if n.allOnes == 0 {
		return nil
	}
	if n.ones, err = n.dev.Alloc(4*n.allOnes, kernels.Working); err != nil {
		return fmt.Errorf("model: constants: %w", err)
	}
	return nil
}

// drawTensors sets dense parameters to their initial values.
func (n *network) drawTensors() {
	for _, m := range n.mlps {
		m.drawLayers(&n.params, n.c.Seed)
	}
	for _, t := range n.tensors {
		n.params.drawTensor(n.s, t.index, n.c.Seed, t.std)
	}
}

// setConstants sets the buffers that no step changes.
func (n *network) setConstants() {
	for _, l := range n.lists {
		values := make([]int32, l.list.Floats())
		for i := range values {
			values[i] = int32(l.at(i))
		}
		n.s.Upload(*l.list, kernels.BytesOf(values))
	}
	if n.allOnes > 0 {
		ones := make([]float32, n.allOnes)
		for i := range ones {
			ones[i] = 1
		}
		n.s.Upload(n.ones, kernels.BytesOf(ones))
	}
}

// Params returns the dense parameters.
func (n *network) Params() *Params { return &n.params }

// Close frees the memory.
func (n *network) Close() {
	for _, m := range n.mlps {
		m.freeActivations(n.dev)
	}
	for _, a := range n.matrices {
		freeAll(n.dev, a.m.Buf)
	}
	for _, l := range n.lists {
		freeAll(n.dev, *l.list)
	}
	freeAll(n.dev, n.ones, n.params.memory[0], n.params.memory[1])
}

// viewMatrix is the tensor t in a flat buffer, (Rows, Cols).
func (t Tensor) viewMatrix(flat kernels.Buffer) kernels.Matrix {
	return kernels.Mat(t.Of(flat), t.Rows, t.Cols)
}

// addTensor counts a tensor as final, as addLayer does a layer.
func (k *bucketer) addTensor(t Tensor) {
	k.final = t.Offset + t.Len()
	if k.final-k.sent >= bucketFloats {
		k.handOut()
	}
}

// checkTop refuses a top MLP that does not end in one output.
func checkTop(c Config) error {
	if last(c.TopMLP) != 1 {
		return keyError("top_mlp", "ends in %d, but the model has one output; end it in 1", last(c.TopMLP))
	}
	return nil
}

// last is the last width of an MLP, 0 if it has no layers.
func last(widths []int) int { return widthOf(0, widths) }

// widthOf is the width of an MLP's output for inputs of width in.
func widthOf(in int, widths []int) int {
	if len(widths) == 0 {
		return in
	}
	return widths[len(widths)-1]
}
