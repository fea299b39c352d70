package paper

import "slices"

// ecrecDrawings lists the drawings of ECRec.
func ecrecDrawings() []Drawing {
	return slices.Concat(
		ecrecLoad(),
		ecrecCounts(),
		ecrecOverhead(),
		ecrecRecovery(),
	)
}
