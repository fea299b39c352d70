package paper

import "slices"

// All lists the drawings, in the order of the page.
func All() []Drawing {
	return slices.Concat(ecrecDrawings(), bagPipeDrawings(), openEmbeddingDrawings(), continuousDrawings(), ownDrawings())
}
