package bench

import (
	"runtime"
	"time"

	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/oracle"
)

// oracleParts is the seconds per sample of plans, merges and decisions.
type oracleParts [3]float64

// oracleRun is all ranks of one case. Each is a trainer, whose slice is planned,
// and the owner of a share of the rows.
type oracleRun struct {
	oracleCase
	*oracleData
	place  placement.Map
	plans  []oracle.Plan
	owners []oracleOwner
	next   int // step
	rows   int // distinct ones of the last batch
}

// oracleOwner is the state of an owner.
type oracleOwner struct {
	wanted  []int32
	perRank []int
	merged  oracle.Merged
	// In mode lrpp.
	window    *oracle.Window
	decisions oracle.Decisions
	// In mode planned: the rows of the future steps; the oldest step is known[oldest].
	known  [][]int32
	oldest int
	marks  []uint8
}

func newOracleRun(c oracleCase, d *oracleData) *oracleRun {
	r := &oracleRun{oracleCase: c, oracleData: d, place: placement.New(d.tables, c.ranks),
		plans: make([]oracle.Plan, c.ranks), owners: make([]oracleOwner, c.ranks)}
	for o := range r.owners {
		r.owners[o].perRank = make([]int, c.ranks)
		if c.mode == "lrpp" {
			r.owners[o].window = oracle.NewWindow(oracle.WindowOptions{Trainers: c.ranks, Self: o, Lookahead: c.lookahead,
				HugePages: kernels.HugePages[uint64], Prefetch: kernels.Prefetch[uint64]})
		} else {
			r.owners[o].known = make([][]int32, c.lookahead+2) // with the step before
		}
	}
	for range c.lookahead + warmupSteps {
		r.step()
	}
	return r
}

// timeParts plans steps with a number of threads for a while.
func (r *oracleRun) timeParts(threads int, tiny bool) oracleParts {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
	r.step() // untimed: the data of this case are not in a CPU cache yet
	var spent [3]time.Duration
	steps := 0
	for begin := time.Now(); steps == 0 || !tiny && time.Since(begin) < oracleTime; steps++ {
		for i, d := range r.step() {
			spent[i] += d
		}
	}
	var p oracleParts
	for i, d := range spent {
		p[i] = d.Seconds() / float64(steps*r.batch)
	}
	return p
}

// step plans one more batch: all ranks their slices, then all owners, then the
// windows, each rank on a goroutine of its own. Lists go from rank to owner
// through memory.
func (r *oracleRun) step() (spent [3]time.Duration) {
	ids := r.steps[r.next%len(r.steps)]
	r.next++
	for i, part := range []func(rank int){
		func(rank int) {
			first, last := rank*r.batch/r.ranks, (rank+1)*r.batch/r.ranks
			r.plans[rank].Fill(r.place, oracle.Lookups{IDs: ids[first*r.features : last*r.features]})
		},
		r.mergeLists,
		func(owner int) { r.owners[owner].decideOldest() },
	} {
		begin := time.Now()
		together(r.ranks, part)
		spent[i] = max(1, time.Since(begin))
	}
	r.rows = 0
	for o := range r.owners {
		r.rows += len(r.owners[o].merged.Slots)
	}
	return spent
}

// mergeLists merges the rows that the ranks need from an owner.
func (r *oracleRun) mergeLists(owner int) {
	o := &r.owners[owner]
	o.wanted = o.wanted[:0]
	for rank := range r.plans {
		p := &r.plans[rank]
		first := 0
		for _, n := range p.PerOwner[:owner] {
			first += n
		}
		o.perRank[rank] = p.PerOwner[owner]
		o.wanted = append(o.wanted, p.Slots[first:first+p.PerOwner[owner]]...)
	}
	o.merged.Merge(o.wanted, o.perRank)
}

// decideOldest adds the step to the window and computes the decisions about the oldest step.
func (o *oracleOwner) decideOldest() {
	if o.window == nil {
		o.markCommon()
		return
	}
	o.window.Add(o.merged.Slots, o.merged.Start, o.merged.Pos, o.perRank)
	if o.window.Ready() {
		if err := o.window.Next(&o.decisions); err != nil {
			panic(err) // the caches have no bound
		}
	}
}

// markCommon adds the step's list, and marks the rows of the second oldest step that the steps before
// and after it use.
func (o *oracleOwner) markCommon() {
	n := len(o.known)
	o.known[o.oldest] = append(o.known[o.oldest][:0], o.merged.Slots...)
	o.oldest = (o.oldest + 1) % n
	before, step, after := o.known[o.oldest], o.known[(o.oldest+1)%n], o.known[(o.oldest+2)%n]
	o.marks = append(o.marks[:0], make([]uint8, len(step))...)
	oracle.MarkCommon(o.marks, step, before, 1)
	oracle.MarkCommon(o.marks, step, after, 2)
}
