package concat_test

import (
	"testing"

	"github.com/ecrec/ecrec/examples/extend/concat"
	"github.com/ecrec/ecrec/model"
	"github.com/ecrec/ecrec/model/modeltest"
	"github.com/ecrec/ecrec/train/traintest"
)

func TestMain(m *testing.M) {
	model.Kinds = append(model.Kinds, concat.Kind)
	m.Run()
}

// TestKind checks gradients, buckets, shape, memory and bits on one rank.
func TestKind(t *testing.T) {
	modeltest.Run(t, modeltest.Suite{
		Small:      model.Config{Kind: "concat", Dense: 4, Tables: 3, EmbeddingDim: 5, TopMLP: []int{8, 1}, Seed: 5},
		Large:      model.Config{Kind: "concat", Dense: 13, Tables: 26, EmbeddingDim: 16, TopMLP: []int{256, 1}},
		OwnBuckets: true, // one for each layer
		Golden:     "53f5466d9dd247c3",
	})
}

// TestJobs trains it on several ranks and processes, resumes it, and loses ranks.
func TestJobs(t *testing.T) {
	traintest.Kind(t, "model.kind=concat", "model.embedding_dim=4", "model.top_mlp=[8, 1]")
}
