package paper

import "slices"

// bagPipeDrawings lists the drawings of BagPipe. config is that of a user's data, or empty.
func bagPipeDrawings(config string) []Drawing {
	return slices.Concat(
		bagPipeCounts(config),
		bagPipeExchange(),
		bagPipeSkew(),
		bagPipeLookahead(),
		bagPipeRecovery(),
		bagPipeVirtual(),
	)
}
