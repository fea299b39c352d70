package lrpp

import (
	"errors"
	"fmt"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/oracle"
)

// Mode is how rows reach the ranks that use them. All give the same bits.
type Mode int

const (
	// Direct fetches before a step and pushes after it, all on the critical path.
	Direct Mode = iota
	// Planned lets owners send each row to exactly those that read it next, as soon
	// as it has its value; what the next step does not need moves while that
	// computes.
	Planned
	// Cached is BagPipe's: trainers keep rows, with optimizer state, for as long as
	// they are known to be used. The one trainer that uses a row updates it; those
	// that several use are copied to all, who apply the reduced gradients.
	Cached
)

// Planner fills Steps. It has a communicator to itself, so that it may run ahead
// of training on a goroutine of its own.
type Planner struct {
	comm  *collectives.Comm
	place placement.Map
	slots int64 // owned by this rank
	o     PlanOptions
	steps int64
	last  []int64       // of each slot: the step that used it last, 0 if none did; nil where that is not checked
	cache *cachePlanner // in mode Cached

	merged oracle.Merged
}

// PlanOptions say how a planner splits steps.
type PlanOptions struct {
	Mode Mode
	// FirstOwner is the rank of the owner 0; the others follow.
	FirstOwner int
	// DelayedSync lets gradients that the next step does not need move later.
	DelayedSync bool
	// Before is the number of the step before the first.
	Before int64
	// Check has the invariant of the package checked, at a cost.
	Check bool

	// What follows is for mode Cached. Trainers is how many ranks train, the first
	// ones. Lookahead is how many steps behind the one that is planned are known;
	// Auto makes it the most, as in oracle.WindowOptions. CapacityRows is how many
	// rows of one owner a trainer's cache holds; 0 is any number.
	Trainers, Lookahead int
	Auto                bool
	CapacityRows        int
}

// NewPlanner makes the planner of one rank.
func NewPlanner(comm *collectives.Comm, place placement.Map, o PlanOptions) *Planner {
	p := &Planner{comm: comm, place: place, o: o, steps: o.Before}
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

// Ahead is how many steps are filled before the one that is planned, where there
// are so many.
func (p *Planner) Ahead() int {
	switch p.o.Mode {
	case Direct:
		return 0
	case Planned:
		return 1
	}
	return p.o.Lookahead
}

// PeerGaveUp ends a Fill or a Plan when another rank has no slice to plan, see
// GiveUp, or no room for what a step needs.
type PeerGaveUp struct{ Rank int }

func (e *PeerGaveUp) Error() string {
	return fmt.Sprintf("rank %d gave up planning: it cannot read its slice, or its rows do not fit into the caches", e.Rank)
}

// gaveUp stands for the count of a rank that plans no more.
const gaveUp = -1

// Fill collects what the step needs whose slice has these ids, (samples, tables),
// together with all other ranks.
func (p *Planner) Fill(st *Step, ids []uint32) error {
	if p.cache != nil {
		return p.cache.fill(st, ids)
	}
	if err := p.collect(st, ids); err != nil {
		return err
	}
	p.trackUse(st)
	if p.o.Mode == Direct {
		st.allCritical()
	}
	return nil
}

// collect fills st but for what neighbouring steps decide.
func (p *Planner) collect(st *Step, ids []uint32) error {
	p.fit(st)
	st.Plan.Fill(p.place, ids)
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
	p.merged.Merge(st.Wanted, st.PerRank)
	m := &p.merged
	if n := len(m.Slots); n > 0 && int64(m.Slots[n-1]) >= p.slots {
		panic(fmt.Sprintf("lrpp: slot %d wanted of rank %d, which has %d", m.Slots[n-1], p.comm.Rank(), p.slots))
	}
	st.Owned = append(st.Owned[:0], m.Slots...)
	st.OwnedStart, st.OwnedPos = append(st.OwnedStart[:0], m.Start...), append(st.OwnedPos[:0], m.Pos...)
	return nil
}

// trackUse notes which step used each row of st before.
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

// End says that no more steps will be filled.
func (p *Planner) End() {
	if p.cache != nil {
		p.cache.end()
	}
}

// Plan plans the oldest step that is filled and not planned, given those before
// and after it, nil where there is none, together with all other ranks. As many
// steps as Ahead says are filled after it, or all that there are, see End. In
// mode Cached an owner's error may be an *oracle.CapacityError.
func (p *Planner) Plan(prev, st, next *Step) error {
	switch p.o.Mode {
	case Planned:
		return p.split(prev, st, next)
	case Cached:
		return p.cache.plan(st)
	}
	return nil
}

// split has owners tell requesters which rows the neighbours use.
func (p *Planner) split(prev, st, next *Step) error {
	st.classify(prev, next)
	if !p.o.DelayedSync {
		for _, list := range [][]class{st.class.owned, st.class.wanted} {
			for i := range list {
				list[i] |= usedAfter
			}
		}
	}
	st.class.mine = resize(st.class.mine, len(st.Plan.Slots))
	copy(st.sendBytes, st.PerRank)
	copy(st.recvBytes, st.PerOwner)
	if err := p.comm.AllToAllV(kernels.HostBuffer(st.class.mine), st.recvBytes,
		kernels.HostBuffer(st.class.wanted), st.sendBytes).Wait(); err != nil {
		return err
	}
	st.split()
	return nil
}

// GiveUp takes the place of the Fill of a rank whose slice cannot be read. It is
// this rank's last call; every other rank's Fill of that step ends with
// PeerGaveUp, so that no planner waits for one that has ended. The world goes on.
func (p *Planner) GiveUp(st *Step) error {
	p.fit(st)
	for r := range st.counts {
		st.counts[r] = gaveUp
	}
	if err := p.exchangeCounts(st); err != nil && !errors.As(err, new(*PeerGaveUp)) {
		return err
	}
	return nil
}

// fit makes the lists that have an entry per rank.
func (p *Planner) fit(st *Step) {
	if n := p.comm.Size(); len(st.PerRank) != n {
		st.PerRank, st.PerOwner = make([]int, n), make([]int, n)
		st.counts, st.wants = make([]int32, n), make([]int32, n)
		st.sendBytes, st.recvBytes = make([]int, n), make([]int, n)
	}
}

// exchangeCounts tells each owner how many rows this rank wants of it.
func (p *Planner) exchangeCounts(st *Step) error {
	for r := range st.sendBytes {
		st.sendBytes[r], st.recvBytes[r] = 4, 4
	}
	if err := p.comm.AllToAllV(kernels.HostBuffer(st.wants), st.recvBytes,
		kernels.HostBuffer(st.counts), st.sendBytes).Wait(); err != nil {
		return err
	}
	for r, k := range st.wants {
		if k == gaveUp {
			return &PeerGaveUp{Rank: r}
		}
		st.PerRank[r] = int(k)
	}
	return nil
}

// exchangeSlots tells each owner which rows this rank wants of it.
func (p *Planner) exchangeSlots(st *Step) error {
	total := 0
	for r, k := range st.PerRank {
		st.sendBytes[r], st.recvBytes[r] = 4*st.PerOwner[r], 4*k
		total += k
	}
	if cap(st.Wanted) < total {
		st.Wanted = make([]int32, total, total+total/4)
	}
	st.Wanted = st.Wanted[:total]
	return p.comm.AllToAllV(kernels.HostBuffer(st.Wanted), st.recvBytes,
		kernels.HostBuffer(st.Plan.Slots), st.sendBytes).Wait()
}
