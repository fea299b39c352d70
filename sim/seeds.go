package sim

// Purposes of the draws of a run. Each has a stream of random numbers of its own, derived
// from the run's seed.
const (
	purposeSchedule uint64 = iota + 1
	purposeConfig
	purposeFaults
	purposeNetwork
	purposeMembership
	purposeDisk
	purposeLogs // and the number of a machine in its upper half, and of a rank
	purposeStream
	purposeBroker
	purposeTopic // faults of the broker that readers see
	purposeFollower
	purposeSamples
)
