package lrpp

import (
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/oracle"
)

// cachePlanner plans in mode Cached. An owner's window decides about its rows, and the
// owner sends row operations to each trainer.
type cachePlanner struct {
	*Planner
	window    *oracle.Window // nil if this rank owns no rows
	decisions oracle.Decisions
	opWriter  opWriter
	slots     cacheSlots

	// demand is the Step that is filled. The window copies the request lists, so that one
	// demand serves all steps. Until a step is planned, only the plan of its own slice is
	// kept: looking ahead needs lookahead times that memory.
	demand         Step
	ops            []uint64 // row operations from the owners, by rank
	opsPerRank     []int
	sent, received []uint64     // numbers of operations
	spare          []*cachePlan // of steps that have been trained
	planned        int64        // the last planned step
}

func newCachePlanner(p *Planner) *cachePlanner {
	c := &cachePlanner{Planner: p, planned: p.o.Before}
	n, me := p.comm.Size(), p.comm.Rank()
	c.opWriter.perRank = make([]int, n)
	c.opsPerRank, c.sent, c.received = make([]int, n), make([]uint64, n), make([]uint64, n)
	if p.o.Check {
		c.opWriter.lastUsed = make([]int64, p.slots)
	}
	if owner := me - p.o.FirstOwner; owner >= 0 && owner < p.place.Owners {
		self := -1
		if me < p.o.Trainers {
			self = me
		}
		c.window = oracle.NewWindow(oracle.WindowOptions{Trainers: p.o.Trainers, Self: self,
			Lookahead: p.o.Lookahead, Auto: p.o.Auto, CapacityRows: p.o.CapacityRows, HugePages: kernels.HugePages[uint64], Prefetch: kernels.Prefetch[uint64]})
	}
	if me < p.o.Trainers {
		c.slots.table.limit = CacheRows(p.place.Slots, p.place.Owners, p.o.CapacityRows)
	}
	return c
}

// CacheRows returns the number of rows in a trainer's cache that holds capacityRows rows
// of each owner; zero means no limit. slots returns the number of rows of an owner.
func CacheRows(slots func(owner int) int64, owners, capacityRows int) int {
	total := int64(0)
	for o := range owners {
		n := slots(o)
		if capacityRows > 0 {
			n = min(n, int64(capacityRows))
		}
		total += n
	}
	return int(total)
}

// fillStep is Planner.Fill in mode Cached.
func (c *cachePlanner) fillStep(st *Step, l oracle.Lookups) error {
	if st.cache != nil {
		c.spare = append(c.spare, st.cache)
		st.cache = nil
	}
	d := &c.demand
	if err := c.collectRequests(d, l); err != nil {
		return err
	}
	if c.window != nil {
		c.window.Add(d.Owned, d.OwnedStart, d.OwnedPos, d.PerRank[:c.o.Trainers])
	}
	swap(&st.Plan.Slots, &d.Plan.Slots)
	swap(&st.Plan.PerOwner, &d.Plan.PerOwner)
	swap(&st.Plan.Index, &d.Plan.Index)
	swap(&st.Plan.Start, &d.Plan.Start)
	swap(&st.Plan.Pos, &d.Plan.Pos)
	swap(&st.Plan.Factors, &d.Plan.Factors)
	return nil
}

func swap[T any](a, b *T) { *a, *b = *b, *a }

func (c *cachePlanner) endWindow() {
	if c.window != nil {
		c.window.End()
	}
}

// planStep is Planner.Plan in mode Cached.
func (c *cachePlanner) planStep(st *Step) error {
	c.planned++
	st.number = c.planned
	n := c.comm.Size()
	plan := c.takeSpare()
	plan.resetLists(n)
	plan.step, plan.trainers, plan.first, plan.rank = st.number, c.o.Trainers, c.o.FirstOwner, c.comm.Rank()
	st.cache = plan
	if err := c.exchangeOps(st.number); err != nil {
		return err
	}
	plan.listOwnerSide(c.opWriter.ops, c.opWriter.perRank)
	if plan.rank < plan.trainers {
		plan.listTrainerSide(&c.slots, c.ops, c.opsPerRank, &st.Plan)
	}
	return nil
}

func (c *cachePlanner) takeSpare() *cachePlan {
	n := len(c.spare)
	if n == 0 {
		return new(cachePlan)
	}
	p := c.spare[n-1]
	c.spare = c.spare[:n-1]
	return p
}

// exchangeOps decides about the rows of this owner and exchanges row operations with all
// ranks. If an owner cannot decide, it reports that to all ranks and no rank trains the
// step.
func (c *cachePlanner) exchangeOps(step int64) error {
	t := &c.opWriter
	var full error
	t.ops = t.ops[:0]
	if c.window != nil {
		if full = c.window.Next(&c.decisions); full == nil {
			t.writeOps(&c.decisions, step, c.o.Trainers, c.o.DelayedSync)
		}
	}
	d := &c.demand // has memory for counts
	for r, n := range t.perRank {
		c.sent[r] = uint64(n)
		if full != nil {
			c.sent[r] = noPlan
		}
	}
	if err := c.comm.AllToAll(kernels.HostBuffer(c.received), kernels.HostBuffer(c.sent)).Wait(); err != nil {
		return err
	}
	if full != nil {
		return full
	}
	total := 0
	for r, n := range c.received {
		if n == noPlan {
			return &PeerGaveUp{Rank: r}
		}
		c.opsPerRank[r] = int(n)
		d.sendBytes[r], d.recvBytes[r] = 8*t.perRank[r], 8*int(n)
		total += int(n)
	}
	c.ops = resize(c.ops, total)
	return c.comm.AllToAllV(kernels.HostBuffer(c.ops), d.recvBytes, kernels.HostBuffer(t.ops), d.sendBytes).Wait()
}

// noPlan is sent instead of the number of operations by an owner that cannot decide.
const noPlan = ^uint64(0)
