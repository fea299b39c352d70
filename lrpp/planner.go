package lrpp

import (
	"errors"
	"fmt"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/oracle"
)

// Step says which rows move in one step, seen from one rank as requester and as
// owner. It is reused: the next Planner.Fill of it overwrites it.
type Step struct {
	// Plan is what this rank's slice needs.
	Plan oracle.Plan
	// Wanted lists the slots that ranks want of this owner, rank 0's first; PerRank
	// says how many each wants.
	Wanted  []int32
	PerRank []int
	// Owned lists the distinct ones of Wanted, ascending, and OwnedStart and
	// OwnedPos where each occurs in Wanted, in rank order.
	Owned                []int32
	OwnedStart, OwnedPos []int32

	counts, wants []int32
	keys          []uint64
	groups        oracle.Groups
	sendBytes     []int
	recvBytes     []int
}

// Planner fills Steps. It has a communicator to itself, so that it may run ahead
// of training on a goroutine of its own.
type Planner struct {
	comm  *collectives.Comm
	place placement.Map
	slots int64 // owned by this rank
}

// NewPlanner makes the planner of one rank.
func NewPlanner(comm *collectives.Comm, place placement.Map) *Planner {
	return &Planner{comm: comm, place: place, slots: place.Slots(comm.Rank())}
}

// PeerGaveUp ends a Fill when another rank has no slice to plan: see GiveUp.
type PeerGaveUp struct{ Rank int }

func (e *PeerGaveUp) Error() string {
	return fmt.Sprintf("rank %d gave up planning: it cannot read its slice", e.Rank)
}

// gaveUp stands for the count of a rank that plans no more.
const gaveUp = -1

// Fill plans the step whose slice has these ids, (samples, tables), together
// with all other ranks.
func (p *Planner) Fill(st *Step, ids []uint32) error {
	p.fit(st)
	st.Plan.Fill(p.place, ids)
	for r, k := range st.Plan.PerOwner {
		st.counts[r] = int32(k)
	}
	if err := p.exchangeCounts(st); err != nil {
		return err
	}
	if err := p.exchangeSlots(st); err != nil {
		return err
	}
	st.keys = st.keys[:0]
	for _, slot := range st.Wanted {
		if int64(slot) >= p.slots || slot < 0 {
			panic(fmt.Sprintf("lrpp: slot %d wanted of rank %d, which has %d", slot, p.comm.Rank(), p.slots))
		}
		st.keys = append(st.keys, uint64(slot))
	}
	st.groups.Group(st.keys, uint64(max(1, p.slots)))
	st.OwnedStart, st.OwnedPos = st.groups.Start, st.groups.Pos
	st.Owned = st.Owned[:0]
	for _, k := range st.groups.Keys {
		st.Owned = append(st.Owned, int32(k))
	}
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
		st.PerRank = make([]int, n)
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
		st.sendBytes[r], st.recvBytes[r] = 4*st.Plan.PerOwner[r], 4*k
		total += k
	}
	if cap(st.Wanted) < total {
		st.Wanted = make([]int32, total, total+total/4)
	}
	st.Wanted = st.Wanted[:total]
	return p.comm.AllToAllV(kernels.HostBuffer(st.Wanted), st.recvBytes,
		kernels.HostBuffer(st.Plan.Slots), st.sendBytes).Wait()
}
