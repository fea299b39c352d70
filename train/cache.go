package train

import (
	"errors"
	"fmt"
	"math"

	"github.com/ecrec/ecrec/internal/invariant"
	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/oracle"
)

// modeOf is the mode of a cache.mode in this job. "auto" is Planned, the fastest by
// measurement. A single rank sends nothing, so it needs no plan, unless its rows are
// not where it computes.
func (j *job) modeOf(name string) lrpp.Mode {
	mode, named := lrpp.ModeOf(name)
	if !named {
		mode = lrpp.Planned
	}
	if mode == lrpp.Planned && j.ranks == 1 && !j.far {
		return lrpp.Direct
	}
	return mode
}

// checksReads reports whether every read of a row is checked.
func (j *job) checksReads() bool { return invariant.Enabled || j.o.Check }

// leastCacheBytes is about the size at which the caches of this process's trainers begin to
// be useful: the rows of a few steps. It is 0 before the data is open.
func (j *job) leastCacheBytes() (bytes float64) {
	if j.o.EvalOnly || j.modeOf(j.cfg.Cache.Mode) != lrpp.Cached {
		return 0
	}
	const steps = 4
	for _, id := range j.hosted {
		if j.roles.isTrainer(id) {
			bytes += min(float64(j.cfg.Cache.MaxBytes), steps*j.distinctRows(int64(j.maxSliceOf(id)))*float64(j.bytesPerRow()))
		}
	}
	return bytes
}

// autoLookahead is the most steps that oracle.lookahead "auto" looks ahead.
const autoLookahead = 200

// mostPlanned is how many steps ahead the plans of an owner of rows can hold.
func mostPlanned(j *job) int64 {
	rows := j.distinctRows(int64(j.order.Batch)) / float64(j.roles.rows)
	return int64(oracle.MostLookahead(min(int64(rows+rows/8), j.place.Slots(0)))) // owners have unequal shares
}

// mostLookahead is how many planned steps fit into a quarter of this process's share of the
// memory that is available, and into a plan.
func (j *job) mostLookahead() int64 {
	available, ok := machine.AvailableMemory()
	if !ok {
		available = math.MaxInt64
	}
	most := float64(available) / 4 / float64(j.world.Neighbours) / j.bytesAhead()
	return int64(max(1, min(most, float64(mostPlanned(j)))))
}

// windowRowBytes is about a planner's memory for a row that a later step uses, beside 8 bytes
// for every row.
const windowRowBytes = 40

// bytesAhead is the most that a planned step takes in this process: on a trainer the batch
// and the row of each lookup, on an owner the rows.
func (j *job) bytesAhead() (bytes float64) {
	batch := int64(j.order.Batch)
	slice := (batch + int64(j.roles.trainers) - 1) / int64(j.roles.trainers)
	for _, id := range j.hosted {
		if j.roles.isTrainer(id) {
			bytes += float64(slice)*(12*j.idsPerSample()+float64(4*(j.schema.Dense+1))) + 8*j.distinctRows(slice)
		}
		if j.roles.ownerOf(id) >= 0 {
			bytes += (windowRowBytes*j.distinctRows(batch) + 2*float64(j.roles.trainers)*j.distinctRows(slice)) / float64(j.roles.rows)
		}
	}
	return max(1, 2*bytes) // the garbage collector lets the heap grow to twice of it
}

// explainCapacity adds to the error of a step whose rows do not fit into the cache how much
// room they need.
func (j *job) explainCapacity(err error, step int64) error {
	full := (*oracle.CapacityError)(nil)
	if !errors.As(err, &full) {
		return err
	}
	need := int64(full.NeededRows) * int64(j.roles.rows) * int64(j.bytesPerRow())
	raise := fmt.Sprintf("set cache.max_bytes to %d (%s) or more, or", need, machine.Size(need))
	if j.cacheRoom < need {
		raise = fmt.Sprintf("they take %s, and %s has room for %s; use more GPUs and job.ranks, cache.mode = \"planned\", or",
			machine.Size(need), j.dev.Name(), machine.Size(j.cacheRoom))
	}
	return fmt.Errorf("step %d: the rows in use at once do not fit into the cache of rank %d; %s lower train.global_batch",
		step, full.Trainer, raise)
}
