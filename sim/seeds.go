package sim

// What the draws of a run are for: each has a stream of its own of the run's seed.
const (
	purposeSchedule uint64 = iota + 1
	purposeConfig
	purposeFaults
	purposeNetwork
	purposeMembership
)
