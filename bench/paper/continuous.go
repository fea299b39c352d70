package paper

import "slices"

// continuousDrawings lists the drawings of Continuous Checkpointing.
func continuousDrawings() []Drawing {
	return slices.Concat(
		continuousMessages(),
		continuousTables(),
		continuousTimeline(),
	)
}
