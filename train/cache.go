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

// mode is what a cache.mode means for this job. "auto" is what was measured best:
// what moves while a step computes is not waited for. One rank alone moves
// nothing, unless its rows are not where it computes. What an ideal run trains needs no plan.
func (j *job) mode(name string) lrpp.Mode {
	if name == UnprotectedMode {
		name = j.cfg.Cache.Mode
	}
	switch {
	case name == "lrpp":
		return lrpp.Cached
	case name == "none" || name == IdealMode || j.ranks == 1 && !j.far:
		return lrpp.Direct
	}
	return lrpp.Planned
}

// checks reports whether every read of a row is checked.
func (j *job) checks() bool { return invariant.Enabled || j.o.Check }

// planOptions are those of training in a cache.mode.
func (r *rank) planOptions(mode string) lrpp.PlanOptions {
	j := r.job
	return lrpp.PlanOptions{Mode: j.mode(mode), DelayedSync: j.cfg.Cache.DelayedSync, Check: j.checks(),
		Trainers: j.roles.trainers, Lookahead: r.ahead, Auto: j.cfg.Oracle.Lookahead.Auto, CapacityRows: r.perOwner}
}

// bytesPerRow is a row with its optimizer state.
func (j *job) bytesPerRow() int { return 4 * (j.width + j.sparse.Kind.RowState(j.width)) }

// capacityRows is how many rows of one owner a cache of so many bytes holds, all of them at
// most.
func (j *job) capacityRows(bytes int64) int64 {
	rows := bytes / int64(j.bytesPerRow()) / int64(j.roles.rows)
	return min(max(1, rows), j.place.Slots(0))
}

// leastCacheBytes is about what the caches of this process's trainers need to be of use: the rows
// of some steps. It is 0 before the data is known.
func (j *job) leastCacheBytes() (bytes float64) {
	if j.o.EvalOnly || j.mode(j.cfg.Cache.Mode) != lrpp.Cached {
		return 0
	}
	const steps = 4
	for _, id := range j.hosted {
		if j.roles.trains(id) {
			bytes += min(float64(j.cfg.Cache.MaxBytes), steps*j.distinct(int64(j.maxSliceOf(id)))*float64(j.bytesPerRow()))
		}
	}
	return bytes
}

// distinct is how many rows so many samples use at most.
func (j *job) distinct(samples int64) (rows float64) {
	for _, n := range j.schema.Tables {
		rows += float64(min(n, samples))
	}
	return rows
}

// autoLookahead is the most steps that lookahead "auto" looks ahead.
const autoLookahead = 200

// openCache makes the cache of cache.mode lrpp for a training of some steps. All
// ranks look ahead as far as the one does whose memory is shortest, and have caches as
// large as that whose GPU has the least room.
func (r *rank) openCache(steps int64) error {
	j := r.job
	asked := autoLookahead
	if l := j.cfg.Oracle.Lookahead; !l.Auto {
		asked = l.Batches
	}
	fits, err := r.ctl.gather([]uint64{uint64(j.lookaheadThatFits()), uint64(j.capacityRows(min(int64(j.cfg.Cache.MaxBytes), j.cacheRoom)))})
	if err != nil {
		return err
	}
	r.ahead, r.perOwner = asked, math.MaxInt
	for _, f := range fits {
		r.ahead, r.perOwner = min(r.ahead, int(f[0])), min(r.perOwner, int(f[1]))
	}
	if int64(r.perOwner) == j.place.Slots(0) {
		r.perOwner = 0 // all of them
	}
	if r.id == 0 && int64(r.ahead) < min(int64(asked), steps) && !j.cfg.Oracle.Lookahead.Auto {
		j.o.Observer.Warned(fmt.Sprintf("oracle.lookahead: %d steps ahead do not fit into a quarter of the memory available; looking %d ahead", asked, r.ahead))
	}
	r.cache, err = lrpp.NewCache(r.base, lrpp.CacheOptions{Trainers: j.roles.trainers, FirstOwner: j.roles.first,
		Rows: lrpp.CacheRows(j.place.Slots, j.place.Owners, r.perOwner)})
	return err
}

// tellIfCrowded warns once that the cache is too small for a configured lookahead.
func (r *rank) tellIfCrowded() {
	if r.id != 0 || r.told || r.cache == nil || r.job.cfg.Oracle.Lookahead.Auto || !r.cache.Crowded() {
		return
	}
	r.told = true
	limit, raise := fmt.Sprintf("cache.max_bytes: %v", r.job.cfg.Cache.MaxBytes), "raise it, or "
	if room := r.job.cacheRoom; room < int64(r.job.cfg.Cache.MaxBytes) {
		limit, raise = "cache: the room that the GPU has, "+machine.Size(room)+",", ""
	}
	r.job.o.Observer.Warned(fmt.Sprintf("%s is too little for the rows of %d steps ahead; those used last leave early; %slower oracle.lookahead", limit, r.ahead, raise))
}

// lookaheadThatFits is how many steps may wait for their turn so that they take a
// quarter of this machine's available memory at most.
func (j *job) lookaheadThatFits() int64 {
	available, ok := machine.AvailableMemory()
	if !ok {
		available = math.MaxInt64
	}
	most := float64(available) / 4 / float64(j.world.Neighbours) / j.bytesAhead()
	return int64(max(1, min(most, oracle.MaxLookahead)))
}

// windowRowBytes is about what a planner keeps of a row that a step ahead uses,
// beside 8 bytes of every row.
const windowRowBytes = 40

// bytesAhead is the most that a step which waits takes in this process: on a
// trainer the batch and which lookups name which row, on an owner which rows.
func (j *job) bytesAhead() (bytes float64) {
	batch := int64(j.order.Batch)
	slice := (batch + int64(j.roles.trainers) - 1) / int64(j.roles.trainers)
	for _, id := range j.hosted {
		if j.roles.trains(id) {
			bytes += float64(slice*int64(12*len(j.schema.Tables)+4*(j.schema.Dense+1))) + 8*j.distinct(slice)
		}
		if j.roles.owner(id) >= 0 {
			bytes += (windowRowBytes*j.distinct(batch) + 2*float64(j.roles.trainers)*j.distinct(slice)) / float64(j.roles.rows)
		}
	}
	return max(1, 2*bytes) // the collector lets as much garbage grow beside it
}

// explain says of rows that do not fit into the cache how much room they need.
func (j *job) explain(err error, step int64) error {
	full := (*oracle.CapacityError)(nil)
	if !errors.As(err, &full) {
		return err
	}
	need := int64(full.NeededRows) * int64(j.roles.rows) * int64(j.bytesPerRow())
	raise := fmt.Sprintf("set cache.max_bytes to %d (%s) or more, or", need, machine.Size(need))
	if j.cacheRoom < need {
		raise = fmt.Sprintf("they take %s, and %s has room for %s; use more GPUs and job.ranks, cache.mode = \"planned\", or", machine.Size(need), j.dev.Name(), machine.Size(j.cacheRoom))
	}
	return fmt.Errorf("step %d: the rows in use at once do not fit into the cache of rank %d; %s lower train.global_batch", step, full.Trainer, raise)
}
