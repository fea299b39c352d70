package paper

import "slices"

// openEmbeddingDrawings lists the drawings of OpenEmbedding.
func openEmbeddingDrawings() []Drawing {
	return slices.Concat(
		openEmbeddingCounts(),
		openEmbeddingExchange(),
		openEmbeddingMachine(),
		openEmbeddingRows(),
		openEmbeddingSaves(),
	)
}
