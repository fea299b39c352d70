package model

import "github.com/ecrec/ecrec/kernels"

// Model trains and evaluates on one rank.
type Model interface {
	// Params are the dense parameters.
	Params() *Params
	// Forward returns the logits of a slice, (b, 1).
	Forward(in Batch) kernels.Matrix
	// Backward follows a Forward of the same slice: from the gradient of the
	// logits, (b, 1), it computes all dense gradients, calling ready for each bucket
	// as soon as it is final, and returns the gradients of the cells, (b, t*w), that
	// GatherRows computed.
	Backward(in Batch, dlogits kernels.Matrix, ready func(bucket kernels.Buffer)) kernels.Matrix
	// GEMMs runs only the matrix products of one step over b samples, to measure
	// their share of a step. It follows a step of b samples or more, and overwrites
	// activations and gradients.
	GEMMs(b int)
	// Close frees the model's memory.
	Close()
}

// Batch is the input of a model for a slice of b samples.
type Batch struct {
	// Dense is (b, dense features).
	Dense kernels.Matrix
	// Rows holds the distinct rows of the slice, (u, w), and Index, an int32 per
	// lookup, which of them each lookup reads. Lookups are ordered by sample, then by
	// feature, then by position in the bag.
	Rows  kernels.Matrix
	Index kernels.Buffer
	// Offsets, b*t+1 int32, are the lookups of each cell: those of cell c are numbers
	// Offsets[c] to Offsets[c+1]-1. Empty: each cell has one.
	Offsets kernels.Buffer
	// Weights, a float32 per lookup, multiply rows before they are added. Empty: all are 1.
	Weights kernels.Buffer
	// Mean, an int32 per feature, is 0 where the rows of a bag are added, and 1 where the
	// sum is divided by their number. Empty: no feature has means.
	Mean kernels.Buffer

	// Train is true for a slice that is trained, and false in evaluations and predictions,
	// which read none of the fields below.
	Train bool
	// Step is the step that trains the slice, from 1. GlobalN is the number of samples of the
	// global batch, over all trainers, and First the index in it of the slice's first sample.
	Step    int64
	First   int64
	GlobalN int
	// AddUp replaces sums, float32, by the sum of all trainers' sums, each element added in the
	// order of their ranks. It waits for the stream and for the other trainers. A model may
	// call it in Forward and Backward of a slice that is trained, if its Shape has AddsUp; all
	// trainers must then make the same calls, also for empty slices. After the failure of a
	// peer it leaves sums as they are, and the caller of Forward or Backward ends the step.
	AddUp func(sums kernels.Buffer)
}

// Config describes a model. A kind reads the fields whose keys it lists.
type Config struct {
	Kind         string // the name of an entry of Kinds
	Dense        int    // number of dense features
	Tables       int    // number of features, each of which looks up an embedding table
	TableOf      []int  // the table of each feature; nil: feature f has table f
	EmbeddingDim int
	BottomMLP    []int  // output widths of the layers
	TopMLP       []int  // output widths of the layers
	Interaction  string // the name of one of Interactions; empty: InteractionDot
	Linear       bool   // whether rows have a weight for a linear model over ids
	Cross        string // the name of one of Crosses; empty: CrossLowRank
	CrossLayers  int    // number of cross layers
	CrossRank    int    // of low-rank cross layers
	Structure    string // the name of one of Structures; empty: StructureStacked
	// BatchNorm and Dropout, a probability, are those of the hidden layers of all MLPs.
	BatchNorm bool
	Dropout   float64
	// DenseEmbedding gives each dense feature a vector, as an id has one.
	DenseEmbedding bool

	Seed       uint64
	MaxSamples int // most samples of a slice
	// Blank leaves the dense parameters zeros, for a caller that sets them all. Params.Draw draws
	// them after all. A kind may ignore it.
	Blank bool
}
