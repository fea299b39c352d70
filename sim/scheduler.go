package sim

import (
	"math/rand/v2"
	"time"

	"github.com/ecrec/ecrec/internal/env/virtual"
)

// Limits of a run, for runs that do not end. A normal run takes about 100,000 decisions; with many ranks they grow with the square
// of their number (decisionsOf).
const (
	maxDecisions = 20_000_000
	maxTime      = 10 * time.Minute // virtual
)

// slowest is the maximum virtual time of a disk operation.
const slowest = 2 * time.Millisecond

// errDead is returned to a process that was killed.
var errDead = virtual.ErrDead

const never = virtual.Never

// newScheduler returns a scheduler with its random numbers, and a limit of decisions.
func newScheduler(draw *rand.Rand, limit int64) *virtual.Scheduler {
	return virtual.New(drawSchedule(draw, limit))
}

// drawSchedule draws how often tasks are delayed.
func drawSchedule(draw *rand.Rand, limit int64) virtual.Options {
	o := virtual.Options{Draw: draw, SlowestWork: slowest, MaxDecisions: limit, MaxTime: maxTime}
	o.Yields = []int{2, 8, 64}[draw.IntN(3)]
	o.Lazy = []int{0, 5, 30}[draw.IntN(3)]
	return o
}

// decisionsOf is the limit of decisions of a run with some ranks.
func decisionsOf(ranks int) int64 {
	const usual = 10
	return maxDecisions * int64(max(1, ranks*ranks/(usual*usual)))
}
