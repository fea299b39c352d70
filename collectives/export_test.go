package collectives

import "math"

// StageAlways makes every AllReduce in place stage its addends, or none, until undo. No
// operation may run meanwhile.
func StageAlways(always bool) (undo func()) {
	was := stagingHere
	stagingHere = staging{least: math.MaxInt}
	if always {
		stagingHere = staging{most: math.MaxInt, cores: math.MaxInt}
	}
	return func() { stagingHere = was }
}

// StagingPays reports whether a buffer of the given bytes is staged with the given ranks
// and cores, whose private caches have coreCache bytes.
func StagingPays(coreCache, cores, ranks, bytes int) bool {
	return stagingFor(coreCache, cores).paysOff(ranks, bytes)
}

// BruckFrom makes operations on tiny parts forward them from some number of ranks on, until
// undo. No operation may run meanwhile.
func BruckFrom(ranks int) (undo func()) {
	was := leastBruckRanks
	leastBruckRanks = ranks
	return func() { leastBruckRanks = was }
}
