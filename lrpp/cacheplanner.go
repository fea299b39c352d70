package lrpp

import (
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/oracle"
)

// cachePlanner plans in mode Cached: an owner's window decides about its rows, and
// tells each trainer what concerns it.
type cachePlanner struct {
	*Planner
	window    *oracle.Window // nil where this rank owns nothing
	decisions oracle.Decisions
	teller    teller
	slots     cacheSlots

	// demand is where steps are filled: what a window has copied is not kept. Of the
	// step itself only its slice's plan stays until it is planned, as lookahead times
	// that is what looking ahead takes.
	demand     Step
	heard      []uint64 // words of owners, by rank
	heardOf    []int
	sent, came []uint64     // numbers of words
	spare      []*cachePlan // of steps that have been trained
	planned    int64        // the last step that was
}

func newCachePlanner(p *Planner) *cachePlanner {
	c := &cachePlanner{Planner: p, planned: p.o.Before}
	n, me := p.comm.Size(), p.comm.Rank()
	c.teller.perRank = make([]int, n)
	c.heardOf, c.sent, c.came = make([]int, n), make([]uint64, n), make([]uint64, n)
	if p.o.Check {
		c.teller.lastUsed = make([]int64, p.slots)
	}
	if owner := me - p.o.FirstOwner; owner >= 0 && owner < p.place.Owners {
		self := -1
		if me < p.o.Trainers {
			self = me
		}
		c.window = oracle.NewWindow(oracle.WindowOptions{Trainers: p.o.Trainers, Self: self,
			Lookahead: p.o.Lookahead, Auto: p.o.Auto, CapacityRows: p.o.CapacityRows, HugePages: kernels.HugePages, Prefetch: kernels.Prefetch})
	}
	if me < p.o.Trainers {
		c.slots.table.limit = CacheRows(p.place.Slots, p.place.Owners, p.o.CapacityRows)
	}
	return c
}

// CacheRows is how many rows a trainer's cache holds that has room for so many of
// each owner, 0 for any number; slots tells how many an owner has.
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

// fill is Fill.
func (c *cachePlanner) fill(st *Step, ids []uint32) error {
	if st.cache != nil {
		c.spare = append(c.spare, st.cache)
		st.cache = nil
	}
	d := &c.demand
	if err := c.collect(d, ids); err != nil {
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
	return nil
}

func swap[T any](a, b *T) { *a, *b = *b, *a }

func (c *cachePlanner) end() {
	if c.window != nil {
		c.window.End()
	}
}

// plan is Plan.
func (c *cachePlanner) plan(st *Step) error {
	c.planned++
	st.number = c.planned
	n := c.comm.Size()
	plan := c.fresh()
	plan.reset(n)
	plan.step, plan.trainers, plan.first, plan.rank = st.number, c.o.Trainers, c.o.FirstOwner, c.comm.Rank()
	st.cache = plan
	if err := c.tell(st.number); err != nil {
		return err
	}
	plan.served(c.teller.words, c.teller.perRank)
	if plan.rank < plan.trainers {
		plan.wants(&c.slots, c.heard, c.heardOf, &st.Plan)
	}
	return nil
}

func (c *cachePlanner) fresh() *cachePlan {
	n := len(c.spare)
	if n == 0 {
		return new(cachePlan)
	}
	p := c.spare[n-1]
	c.spare = c.spare[:n-1]
	return p
}

// tell decides about the rows of this owner, and exchanges decisions with all
// ranks. An owner that cannot decide says so, and nobody trains the step.
func (c *cachePlanner) tell(step int64) error {
	t := &c.teller
	var full error
	t.words = t.words[:0]
	if c.window != nil {
		if full = c.window.Next(&c.decisions); full == nil {
			t.tell(&c.decisions, step, c.o.Trainers, c.o.DelayedSync)
		}
	}
	d := &c.demand // has room for counts
	for r, n := range t.perRank {
		c.sent[r] = uint64(n)
		if full != nil {
			c.sent[r] = wontPlan
		}
		d.sendBytes[r], d.recvBytes[r] = 8, 8
	}
	if err := c.comm.AllToAllV(kernels.HostBuffer(c.came), d.recvBytes, kernels.HostBuffer(c.sent), d.sendBytes).Wait(); err != nil {
		return err
	}
	if full != nil {
		return full
	}
	total := 0
	for r, n := range c.came {
		if n == wontPlan {
			return &PeerGaveUp{Rank: r}
		}
		c.heardOf[r] = int(n)
		d.sendBytes[r], d.recvBytes[r] = 8*t.perRank[r], 8*int(n)
		total += int(n)
	}
	c.heard = resize(c.heard, total)
	return c.comm.AllToAllV(kernels.HostBuffer(c.heard), d.recvBytes, kernels.HostBuffer(t.words), d.sendBytes).Wait()
}

// wontPlan stands for the number of words of an owner that cannot decide.
const wontPlan = ^uint64(0)
