package model

import "fmt"

// Shape describes a model to other packages. Memory planning, checkpoints, exports and
// benchmarks read it, so that none of them depends on a kind.
type Shape struct {
	// Tensors are the dense parameters, in the order of Params.Tensors.
	Tensors []Tensor
	// Statistics are the tensors that training changes without a gradient, as Params.Statistics.
	Statistics []Tensor
	// Row lists the parts of an embedding row, in order. The first is the embedding.
	Row []Part
	// Activations is how many floats the model allocates for each sample of
	// Config.MaxSamples.
	Activations int
	// Constants is how many floats the model allocates beside its dense parameters, their
	// gradients and Activations, independent of Config.MaxSamples: a row of ones and padding, for example.
	Constants int
	// FLOPs counts the matrix products of forward and backward for one sample, a
	// multiply-add as two operations.
	FLOPs float64
	// SkipsDense is set if the model does not read the dense features of its config.
	SkipsDense bool
	// AddsUp is set if the model calls Batch.AddUp.
	AddsUp bool
}

// Part is a range of columns of an embedding row that files hold as a tensor of
// its own, one per table.
type Part struct {
	Name  string // "emb_l": the tensors are emb_l.0.weight, emb_l.1.weight, ...
	Width int    // number of columns
	// Group names the section of the config with the part's update rule.
	Group Group
	// Init gives the part's initial weights.
	Init Init
}

// linearPart is the part of a row with the id's weight in a linear model.
var linearPart = Part{Name: "linear_l", Width: 1, Group: Linear, Init: Zero}

// Group is a section of [optimizer] that updates parts of rows.
type Group int

const (
	Sparse Group = iota // [optimizer.sparse]
	Linear              // [optimizer.linear]: weights that are added to the logit, one for each id
)

// Init is the distribution of the initial weights of a part.
type Init int

const (
	// Uniform: uniform in (-sqrt(1/n), sqrt(1/n)) in a table of n rows, as in the reference DLRM.
	Uniform Init = iota
	// Zero: all weights start at 0, as those of a logistic regression do (McMahan et al., "Ad
	// Click Prediction: a View from the Trenches", KDD 2013, algorithm 1). FuxiCTR draws them
	// with a standard deviation of 1e-4, and PyTorch's EmbeddingBag with 1, which is far too
	// large for weights that are added up.
	Zero
)

// Tensor names the tensor, (rows of the table, Width), that holds the part in
// files.
func (p Part) Tensor(table int) string { return fmt.Sprintf("%s.%d.weight", p.Name, table) }

// RowWidth is the number of weights of an embedding row, all parts together.
func (s Shape) RowWidth() (weights int) {
	for _, p := range s.Row {
		weights += p.Width
	}
	return weights
}

// SavedFloats is the number of floats of the dense parameters and the statistics.
func (s Shape) SavedFloats() (n int) {
	for _, t := range s.Statistics {
		n += t.Len()
	}
	return n + s.DenseParams()
}

// HasGroup reports whether a group updates a part of the rows.
func (s Shape) HasGroup(g Group) bool {
	for _, p := range s.Row {
		if p.Group == g {
			return true
		}
	}
	return false
}

// DenseParams is the number of dense parameters.
func (s Shape) DenseParams() (n int) {
	for _, t := range s.Tensors {
		n += t.Len()
	}
	return n
}
