package paper

import "slices"

// bagPipeDrawings lists the drawings of BagPipe.
func bagPipeDrawings() []Drawing {
	return slices.Concat(
		bagPipeCounts(),
		bagPipeExchange(),
		bagPipeSkew(),
		bagPipeLookahead(),
		bagPipeRecovery(),
		bagPipeVirtual(),
	)
}
