package model

import (
	"fmt"

	"github.com/ecrec/ecrec/kernels"
)

// Model trains and evaluates on one rank.
type Model interface {
	// Params are the dense parameters.
	Params() *Params
	// RowWidth is the number of weights of an embedding row.
	RowWidth() int
	// Forward returns the logits of a slice, (b, 1).
	Forward(in Batch) kernels.Matrix
	// Backward follows a Forward of the same slice: from the gradient of the
	// logits, (b, 1), it computes all dense gradients, calling ready for each bucket
	// as soon as it is final, and returns the gradients of the lookups, (b, t*d).
	Backward(in Batch, dlogits kernels.Matrix, ready func(bucket kernels.Buffer)) kernels.Matrix
	// GEMMs runs the bare matrix products of one step over b samples and nothing
	// else, for measuring what share of a step they are. It follows a step of b
	// samples or more, and spoils activations and gradients.
	GEMMs(b int)
	// Close frees the model's memory.
	Close()
}

// Batch is what a model reads of a slice of b samples.
type Batch struct {
	// Dense is (b, dense features).
	Dense kernels.Matrix
	// Rows holds the distinct rows of the slice, (u, d), and Index, an int32 per
	// lookup, which of them each lookup reads.
	Rows  kernels.Matrix
	Index kernels.Buffer
}

// Config describes a model.
type Config struct {
	Kind         string // "dlrm"
	Dense        int    // dense features
	Tables       int
	EmbeddingDim int
	BottomMLP    []int // widths of the outputs; the last is EmbeddingDim
	TopMLP       []int // widths of the outputs; the last is 1
	Seed         uint64
	MaxSamples   int // largest slice
}

// New makes a model with freshly drawn dense parameters.
func New(dev kernels.Device, s kernels.Stream, c Config) (Model, error) {
	switch c.Kind {
	case "dlrm":
		m, err := newDLRM(dev, s, c)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	return nil, fmt.Errorf("model.kind %q: this version trains dlrm", c.Kind)
}
