package train

import (
	"fmt"
	"math"

	"github.com/ecrec/ecrec/internal/machine"
	"github.com/ecrec/ecrec/lrpp"
)

// planOptions are the options of a planner for training.
func (r *rank) planOptions(mode lrpp.Mode) lrpp.PlanOptions {
	j := r.job
	return lrpp.PlanOptions{Mode: mode, DelayedSync: j.cfg.Cache.DelayedSync && j.cfg.Train.ClipNorm == 0, Check: j.checksReads(),
		AllRows:  j.rows.movesAll(),
		Trainers: j.roles.trainers, Lookahead: r.conns.ahead, Auto: j.cfg.Oracle.Lookahead.Auto, CapacityRows: r.conns.perOwner}
}

// askedLookahead is how many steps oracle.lookahead looks ahead at most.
func askedLookahead(j *job) int {
	if l := j.cfg.Oracle.Lookahead; !l.Auto {
		return l.Batches
	}
	return autoLookahead
}

// openCache opens the cache of cache.mode lrpp for a training of some steps. All ranks look
// ahead as far as the rank with the least memory, and have caches as large as that of the
// rank whose GPU has the least room.
func (r *rank) openCache(steps int64) error {
	j, g := r.job, &r.conns
	asked := askedLookahead(j)
	limits, err := g.ctl.gather([]uint64{uint64(j.mostLookahead()), uint64(j.cacheRows(min(int64(j.cfg.Cache.MaxBytes), j.cacheRoom)))})
	if err != nil {
		return err
	}
	g.ahead, g.perOwner = asked, math.MaxInt
	for _, l := range limits {
		g.ahead, g.perOwner = min(g.ahead, int(l[0])), min(g.perOwner, int(l[1]))
	}
	if int64(g.perOwner) == j.place.Slots(0) {
		g.perOwner = 0 // all rows
	}
	if r.id == 0 && int64(g.ahead) < min(int64(asked), steps) && !j.cfg.Oracle.Lookahead.Auto {
		into := "a quarter of the memory available"
		if int64(g.ahead) == mostPlanned(j) {
			into = "a plan"
		}
		j.o.Observer.Warned(fmt.Sprintf("oracle.lookahead: %d steps ahead do not fit into %s; looking %d ahead", asked, into, g.ahead))
	}
	g.cache, err = lrpp.NewCache(g.base, lrpp.CacheOptions{Trainers: j.roles.trainers, FirstOwner: j.roles.first,
		Rows: lrpp.CacheRows(j.place.Slots, j.place.Owners, g.perOwner)})
	return err
}

// warnOfSmallCache warns once if the cache is too small for the lookahead of the config.
func (r *rank) warnOfSmallCache() {
	j := r.job
	if r.id != 0 || j.warned[warnCache] || r.conns.cache == nil || j.cfg.Oracle.Lookahead.Auto || !r.conns.cache.Crowded() {
		return
	}
	limit, raise := fmt.Sprintf("cache.max_bytes: %v", j.cfg.Cache.MaxBytes), "raise it, or "
	if room := j.cacheRoom; room < int64(j.cfg.Cache.MaxBytes) {
		limit, raise = "cache: the room that the GPU has, "+machine.Size(room)+",", ""
	}
	j.warnOnce(warnCache, fmt.Sprintf("%s is too little for the rows of %d steps ahead; those used last leave early; %slower oracle.lookahead", limit, r.conns.ahead, raise))
}
