package heartbeat

import "time"

const (
	// Missed is the number of heartbeats in a row that a process misses before it is lost.
	Missed = 5
	// Patience is the least limit in a job that cannot replace a lost process.
	Patience = 30 * time.Second
)

// Limit is the time after which a silent process is lost, given the interval of its heartbeats.
// A short limit shortens the recovery of a job that survives losses. Any other job ends with
// a loss, even a falsely detected one, so its limit is Patience or more.
func Limit(interval time.Duration, recovers bool) time.Duration {
	if recovers {
		return Missed * interval
	}
	return max(Missed*interval, Patience)
}

// maxDoublings bounds the doublings of a limit.
const maxDoublings = 5

// Doubled is a limit after it was too short a number of times in a row: each time doubles it.
func Doubled(limit time.Duration, times int) time.Duration {
	return limit << min(times, maxDoublings)
}
