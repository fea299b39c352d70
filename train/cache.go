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
// nothing. What an ideal run trains needs no plan.
func (j *job) mode(name string) lrpp.Mode {
	if name == UnprotectedMode {
		name = j.cfg.Cache.Mode
	}
	switch {
	case name == "lrpp":
		return lrpp.Cached
	case name == "none" || name == IdealMode || j.ranks == 1:
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
		Trainers: j.roles.trainers, Lookahead: r.ahead, Auto: j.cfg.Oracle.Lookahead.Auto, CapacityRows: j.capacityRows()}
}

// bytesPerRow is a row with its optimizer state.
func (j *job) bytesPerRow() int { return 4 * (j.width + j.sparse.Kind.RowState(j.width)) }

// capacityRows is how many rows of one owner a cache holds; 0: all that there are.
func (j *job) capacityRows() int {
	rows := int64(j.cfg.Cache.MaxBytes) / int64(j.bytesPerRow()) / int64(j.roles.rows)
	if rows >= j.place.Slots(0) {
		return 0
	}
	return int(max(1, rows))
}

// autoLookahead is the most steps that lookahead "auto" looks ahead.
const autoLookahead = 200

// openCache makes the cache of cache.mode lrpp for a training of some steps. All
// ranks look ahead as far as the one does whose memory is shortest.
func (r *rank) openCache(steps int64) error {
	j := r.job
	asked := autoLookahead
	if l := j.cfg.Oracle.Lookahead; !l.Auto {
		asked = l.Batches
	}
	fits, err := r.ctl.gather([]uint64{uint64(j.lookaheadThatFits())})
	if err != nil {
		return err
	}
	r.ahead = asked
	for _, f := range fits {
		r.ahead = min(r.ahead, int(f[0]))
	}
	if r.id == 0 && int64(r.ahead) < min(int64(asked), steps) && !j.cfg.Oracle.Lookahead.Auto {
		j.o.Observer.Warned(fmt.Sprintf("oracle.lookahead: %d steps ahead do not fit into a quarter of the memory available; looking %d ahead", asked, r.ahead))
	}
	r.cache, err = lrpp.NewCache(r.base, lrpp.CacheOptions{Trainers: j.roles.trainers, FirstOwner: j.roles.first,
		Rows: lrpp.CacheRows(j.place.Slots, j.place.Owners, j.capacityRows())})
	return err
}

// tellIfCrowded warns once that the cache is too small for a configured lookahead.
func (r *rank) tellIfCrowded() {
	if r.id != 0 || r.told || r.cache == nil || r.job.cfg.Oracle.Lookahead.Auto || !r.cache.Crowded() {
		return
	}
	r.told = true
	r.job.o.Observer.Warned(fmt.Sprintf("cache.max_bytes: %v is too little for the rows of %d steps ahead; those used last leave early; raise it, or lower oracle.lookahead",
		r.job.cfg.Cache.MaxBytes, r.ahead))
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
	distinct := func(samples int64) (rows float64) {
		for _, n := range j.schema.Tables {
			rows += float64(min(n, samples))
		}
		return rows
	}
	batch := int64(j.order.Batch)
	slice := (batch + int64(j.roles.trainers) - 1) / int64(j.roles.trainers)
	for _, id := range j.hosted {
		if j.roles.trains(id) {
			bytes += float64(slice*int64(12*len(j.schema.Tables)+4*(j.schema.Dense+1))) + 8*distinct(slice)
		}
		if j.roles.owner(id) >= 0 {
			bytes += (windowRowBytes*distinct(batch) + 2*float64(j.roles.trainers)*distinct(slice)) / float64(j.roles.rows)
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
	return fmt.Errorf("step %d: the rows in use at once do not fit into the cache of rank %d; set cache.max_bytes to %d (%s) or more, or lower train.global_batch",
		step, full.Trainer, need, machine.Size(need))
}
