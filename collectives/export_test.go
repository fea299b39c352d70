package collectives

import "math"

// StageAlways has every AllReduce that is done in place stage, or none, until undo. No
// operation may run meanwhile.
func StageAlways(always bool) (undo func()) {
	was := stagingHere
	stagingHere = staging{least: math.MaxInt}
	if always {
		stagingHere = staging{most: math.MaxInt, cores: math.MaxInt}
	}
	return func() { stagingHere = was }
}

// StagingPays is whether a buffer of so many bytes is staged by so many ranks on a
// machine with these cores, whose own caches are of coreCache bytes.
func StagingPays(coreCache, cores, ranks, bytes int) bool {
	return stagingFor(coreCache, cores).pays(ranks, bytes)
}
