package lrpp

import (
	"errors"
	"fmt"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/oracle"
)

// Mode is the way in which rows reach the ranks that use them. All modes give the same
// bits.
type Mode int

const (
	// Direct fetches rows before a step and sends gradients after it. Both are on the
	// critical path.
	Direct Mode = iota
	// In mode Planned owners send each row to exactly the ranks that read it next, as
	// soon as its value is final. Rows and gradients that the next step does not need are
	// sent while that step computes.
	Planned
	// Cached is BagPipe's mode. Trainers keep rows with optimizer state for as long as
	// future uses are known. A row used by one trainer is updated by it. Rows used by
	// several trainers are copied to all, which apply the reduced gradients.
	Cached
)

// Planner fills and plans Steps. It has a communicator of its own, so that it can run
// ahead of training on its own goroutine.
type Planner struct {
	comm  *collectives.Comm
	place placement.Map
	slots int64 // owned by this rank
	o     PlanOptions
	steps int64
	last  []int64       // of each slot: the last step that used it, 0 if none did; nil if that is not checked
	cache *cachePlanner // in mode Cached

	filler   *oracle.Filler
	merged   oracle.Merged
	splitter splitter
}

// PlanOptions configure a Planner.
type PlanOptions struct {
	Mode Mode
	// FirstOwner is the rank of owner 0. The ranks after it are the other owners.
	FirstOwner int
	// DelayedSync allows gradients that the next step does not need to be sent later.
	DelayedSync bool
	// AllRows: every step updates all rows (kernels.RowRule.ForAllRows). No row is final before
	// a step, and no gradient is sent later. It does not go with Cached.
	AllRows bool
	// Before is the number of the step before the first.
	Before int64
	// Check asserts the invariant of the package, at a cost.
	Check bool
	// Threads plan this rank's slices; nil: the thread of the caller. Plans do not depend on it.
	Threads oracle.Threads

	// The following are for mode Cached. Trainers is the number of ranks that train:
	// ranks 0 to Trainers-1. Lookahead is the number of steps known after the planned
	// one. Auto adapts it, with Lookahead as the maximum, as in oracle.WindowOptions.
	// CapacityRows is the number of rows of one owner that a trainer's cache holds; zero
	// means no limit.
	Trainers, Lookahead int
	Auto                bool
	CapacityRows        int
}

// NewPlanner returns the planner of one rank.
func NewPlanner(comm *collectives.Comm, place placement.Map, o PlanOptions) *Planner {
	p := &Planner{comm: comm, place: place, o: o, steps: o.Before, splitter: splitter{o.Threads, segmentRows}}
	if o.Threads == nil {
		p.splitter.Threads = oracle.Caller{}
	}
	p.filler = oracle.NewFiller(oracle.FillerOptions{Threads: p.splitter.Threads, HugePages: kernels.HugePages[uint32]})
	if owner := comm.Rank() - o.FirstOwner; owner >= 0 && owner < place.Owners {
		p.slots = place.Slots(owner)
	}
	switch {
	case o.Mode == Cached:
		p.cache = newCachePlanner(p)
	case o.Check:
		p.last = make([]int64, p.slots)
	}
	return p
}

// Ahead returns how many steps must be filled after the one to be planned, unless the
// data ends before.
func (p *Planner) Ahead() int {
	switch p.o.Mode {
	case Direct:
		return 0
	case Planned:
		return 1
	}
	return p.o.Lookahead
}

// PeerGaveUp is the error of Fill or Plan when another rank cannot continue. That rank
// has no slice to plan, see GiveUp, or its caches are too small for the step.
type PeerGaveUp struct{ Rank int }

func (e *PeerGaveUp) Error() string {
	return fmt.Sprintf("rank %d stopped planning: it cannot read its slice, or its rows do not fit into the caches", e.Rank)
}

// gaveUp is sent instead of a count by a rank that stops planning.
const gaveUp = -1

// Lookups are those of a slice.
type Lookups = oracle.Lookups

// Fill collects the rows that a step uses. The lookups are those of this rank's slice. All
// ranks call it together.
func (p *Planner) Fill(st *Step, l Lookups) error {
	st.device.forgetAll()
	if p.cache != nil {
		return p.cache.fillStep(st, l)
	}
	if err := p.collectRequests(st, l); err != nil {
		return err
	}
	p.trackUse(st)
	if p.o.Mode == Direct {
		st.allCritical()
	}
	return nil
}

// collectRequests fills those parts of st that do not depend on neighbouring steps.
func (p *Planner) collectRequests(st *Step, l oracle.Lookups) error {
	p.allocLists(st)
	p.filler.Fill(&st.Plan, p.place, l)
	for o, k := range st.Plan.PerOwner {
		st.PerOwner[p.o.FirstOwner+o] = k
	}
	for r, k := range st.PerOwner {
		st.counts[r] = int32(k)
	}
	if err := p.exchangeCounts(st); err != nil {
		return err
	}
	if err := p.exchangeSlots(st); err != nil {
		return err
	}
	p.merged.Merge(st.Requested, st.PerRank)
	m := &p.merged
	if n := len(m.Slots); n > 0 && int64(m.Slots[n-1]) >= p.slots {
		panic(fmt.Sprintf("lrpp: slot %d requested from rank %d, which has %d slots", m.Slots[n-1], p.comm.Rank(), p.slots))
	}
	swap(&st.Owned, &m.Slots) // the next Merge overwrites what st had
	swap(&st.OwnedStart, &m.Start)
	swap(&st.OwnedPos, &m.Pos)
	return nil
}

// trackUse records which step last used each row of st.
func (p *Planner) trackUse(st *Step) {
	p.steps++
	st.number = p.steps
	if p.last == nil {
		return
	}
	st.before = resize(st.before, len(st.Owned))
	for o, slot := range st.Owned {
		st.before[o], p.last[slot] = p.last[slot], p.steps
	}
}

// End declares that no more steps will be filled.
func (p *Planner) End() {
	if p.cache != nil {
		p.cache.endWindow()
	}
}

// Plan plans the oldest step that is filled and not planned. prev and next are its
// neighbours, nil if there is none. All ranks call it together. Ahead steps must be
// filled after st, or all remaining ones if End was called. In mode Cached an owner's
// error may be an *oracle.CapacityError.
func (p *Planner) Plan(prev, st, next *Step) error {
	switch p.o.Mode {
	case Planned:
		return p.splitStep(prev, st, next)
	case Cached:
		return p.cache.planStep(st)
	}
	return nil
}

// In splitStep, owners send requesters the classes of their rows, and both split their
// lists by class.
func (p *Planner) splitStep(prev, st, next *Step) error {
	always := class(0)
	if !p.o.DelayedSync {
		always = usedAfter
	}
	if p.o.AllRows {
		always = usedBefore | usedAfter
	}
	st.classifyRows(p.splitter, prev, next, always)
	st.class.mine = resize(st.class.mine, len(st.Plan.Slots))
	copy(st.sendBytes, st.PerRank)
	copy(st.recvBytes, st.PerOwner)
	if err := p.comm.AllToAllV(kernels.HostBuffer(st.class.mine), st.recvBytes,
		kernels.HostBuffer(st.class.requested), st.sendBytes).Wait(); err != nil {
		return err
	}
	st.splitLists(p.splitter)
	return nil
}

// GiveUp replaces the Fill of a rank whose slice cannot be read. It must be this rank's
// last call. Every other rank's Fill of that step returns PeerGaveUp, so that no planner
// waits for one that has ended. The communicator stays usable.
func (p *Planner) GiveUp(st *Step) error {
	p.allocLists(st)
	for r := range st.counts {
		st.counts[r] = gaveUp
	}
	if err := p.exchangeCounts(st); err != nil && !errors.As(err, new(*PeerGaveUp)) {
		return err
	}
	return nil
}

// allocLists allocates the lists that have one entry per rank.
func (p *Planner) allocLists(st *Step) {
	if n := p.comm.Size(); len(st.PerRank) != n {
		st.PerRank, st.PerOwner = make([]int, n), make([]int, n)
		st.counts, st.requests = make([]int32, n), make([]int32, n)
		st.sendBytes, st.recvBytes = make([]int, n), make([]int, n)
	}
}

// exchangeCounts sends each owner the number of its rows that this rank uses.
func (p *Planner) exchangeCounts(st *Step) error {
	if err := p.comm.AllToAll(kernels.HostBuffer(st.requests), kernels.HostBuffer(st.counts)).Wait(); err != nil {
		return err
	}
	for r, k := range st.requests {
		if k == gaveUp {
			return &PeerGaveUp{Rank: r}
		}
		st.PerRank[r] = int(k)
	}
	return nil
}

// exchangeSlots sends each owner the slots of its rows that this rank uses.
func (p *Planner) exchangeSlots(st *Step) error {
	total := 0
	for r, k := range st.PerRank {
		st.sendBytes[r], st.recvBytes[r] = 4*st.PerOwner[r], 4*k
		total += k
	}
	if cap(st.Requested) < total {
		st.Requested = make([]int32, total, total+total/4)
	}
	st.Requested = st.Requested[:total]
	return p.comm.AllToAllV(kernels.HostBuffer(st.Requested), st.recvBytes,
		kernels.HostBuffer(st.Plan.Slots), st.sendBytes).Wait()
}
