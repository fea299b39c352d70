package lrpp

import (
	"fmt"
	"github.com/ecrec/ecrec/kernels"
	"time"
)

// Cache brings rows to trainers in mode Cached and keeps them there. It uses the channels
// of an Exchange. As with Exchange, its methods must be called by the training goroutine,
// in the same order on all ranks.
type Cache struct {
	x        *Exchange
	trainers int // ranks 0 to trainers-1 train
	first    int // rank of owner 0
	stride   int // floats of a row with its optimizer state
	check    *copyCheck

	rows kernels.Matrix // (slots, weights and state)
	// at is the row that each cache slot holds, as of the step being trained. Invariant:
	// while a step computes, the delayed work uses only rows that the step does not use,
	// so that the slots of the two are disjoint.
	at                []rowKey
	critical, delayed cacheChannel
	sumsOwn           kernels.Buffer

	next     *Step // the next step given to Begin; its early rows are being fetched
	arriving *Step // the step whose critical rows are being fetched
	later    pendingStep
	flush    flush
	crowded  bool
}

// pendingStep is the delayed work of a step, done while the next step computes.
type pendingStep struct {
	plan *cachePlan // nil: nothing
	sums kernels.Matrix
	rule kernels.RowRule
}

// CacheOptions configure a Cache.
type CacheOptions struct {
	// Trainers and FirstOwner are those of PlanOptions. Rows is the result of CacheRows.
	Trainers, FirstOwner, Rows int
}

// NewCache returns the cache of one rank, on the channels of x. Its memory is sparse:
// pages are allocated when rows are stored.
func NewCache(x *Exchange, o CacheOptions) (*Cache, error) {
	c := &Cache{x: x, trainers: o.Trainers, first: o.FirstOwner, stride: x.shard.RowBytes() / 4}
	c.critical, c.delayed = cacheChannel{channel: x.critical, cache: c}, cacheChannel{channel: x.delayed.channel, cache: c}
	if x.check != nil {
		c.check = newCopyCheck()
	}
	if x.critical.Comm.Rank() >= o.Trainers {
		c.rows = kernels.Matrix{Cols: c.stride, Stride: c.stride}
		return c, nil
	}
	b, err := x.dev.Alloc(4*c.stride*o.Rows, kernels.Sparse)
	if err != nil {
		return nil, fmt.Errorf("lrpp: allocate a cache of %d rows of %d bytes: %w; lower cache.max_bytes", o.Rows, 4*c.stride, err)
	}
	kernels.HugePages(b.Host()) // slots are used from the first one on
	c.rows = kernels.Mat(b, o.Rows, c.stride)
	return c, nil
}

// Close frees the cache. The exchange must be closed first.
func (c *Cache) Close() {
	c.critical.freeBuffers()
	c.delayed.freeBuffers()
	freeAll(c.x.dev, &c.rows.Buf, &c.sumsOwn)
}

// Begin returns the rows of step st, which are the weights in the cache, and the lookups'
// index into them. Both are valid until End. While the step computes, the delayed work of
// the previous step is done. Then the early rows of next are fetched; next is nil after
// the last step. If st does not follow the previous step, the cache starts empty, and
// Settle must have been called before.
func (c *Cache) Begin(st, next *Step) (rows kernels.Matrix, index kernels.Buffer, err error) {
	if c.next != st {
		clear(c.at)
		c.growSlots(st.cache)
		if c.x.isRebuilding() {
			if err := c.x.rebuildFor(st.cache.early.slots, st.cache.critical.slots); err != nil {
				return rows, index, err
			}
		}
		if err := c.critical.prepareStep(st.cache); err != nil {
			return rows, index, err
		}
		if err := c.fetchCritical(st); err != nil {
			return rows, index, err
		}
	}
	if err := c.insertCritical(); err != nil {
		return rows, index, err
	}
	c.next = next
	if next != nil {
		c.growSlots(next.cache)
		c.crowded = c.crowded || len(next.cache.evictForRoom.dropped) > 0
	}
	c.check.checkReads(c.at, st.cache)
	if index, err = c.x.uploadIndex(st.cache.index); err != nil {
		return rows, index, err
	}
	c.x.listRows(st, next)
	c.startDelayed(next)
	return c.rows.Columns(0, c.x.shard.Width()), index, nil
}

// startDelayed starts the delayed work.
func (c *Cache) startDelayed(next *Step) {
	later, d := c.later, &c.delayed
	c.later = pendingStep{}
	expected := c.x.expected.takeLists()
	if later.plan == nil && next == nil && len(expected) == 0 {
		return
	}
	rebuild := next != nil && c.x.isRebuilding()
	c.x.delayed.startJob(func() error {
		d.shard.Expect(expected...)
		if later.plan != nil {
			if err := c.finishDelayed(&later); err != nil {
				return err
			}
		}
		if next == nil {
			return nil
		}
		if rebuild {
			if err := c.x.rebuildFor(next.cache.early.slots, next.cache.critical.slots); err != nil {
				return err
			}
		}
		c.x.delayed.track.Begin("rows", next.number)
		defer c.x.delayed.track.End()
		return d.prepareStep(next.cache)
	})
}

// finishDelayed does the delayed work of a step.
func (c *Cache) finishDelayed(u *pendingStep) error {
	c.x.delayed.track.Begin("gradients", u.plan.step)
	defer c.x.delayed.track.End()
	d := &c.delayed
	if err := d.sendGradients(&u.plan.later, u.sums); err != nil {
		return err
	}
	if err := d.updateShared(&u.plan.later, u.rule, u.plan.step); err != nil {
		return err
	}
	return d.evictRows(&u.plan.evictLater)
}

// End takes the gradients of the cells, (samples, features*width), of the current step.
// Before it returns, the rows that the next step uses are updated, and the fetch of its
// missing ones has started.
func (c *Cache) End(st *Step, rule kernels.RowRule, cells kernels.Matrix) error {
	p := st.cache
	now, err := c.x.sumGradients(&c.x.sumsNow, segments{p.now.start, p.now.pos, p.now.factors, nil}, cells)
	if err != nil {
		return err
	}
	if err := c.x.delayed.waitJob(); err != nil {
		return err
	}
	if err := c.critical.sendGradients(&p.now, now); err != nil {
		return err
	}
	c.critical.startExchange()
	if err := c.updateOwn(p, rule, cells); err != nil { // while that is being sent
		return err
	}
	later, err := c.x.sumGradients(&c.x.sumsLate, segments{p.later.start, p.later.pos, p.later.factors, nil}, cells)
	if err != nil {
		return err
	}
	if err := c.critical.updateShared(&p.now, rule, p.step); err != nil {
		return err
	}
	if err := c.critical.evictRows(&p.evictNow); err != nil {
		return err
	}
	c.later = pendingStep{plan: p, sums: later, rule: rule}
	if c.next != nil {
		return c.fetchCritical(c.next)
	}
	return nil
}

// updateOwn updates the exclusive rows of this trainer.
func (c *Cache) updateOwn(p *cachePlan, rule kernels.RowRule, cells kernels.Matrix) error {
	sums, err := c.x.sumGradients(&c.sumsOwn, segments{p.own.start, p.own.pos, p.own.factors, nil}, cells)
	if err != nil {
		return err
	}
	return c.critical.updateRows(p.own.cached, p.own.before, sums, rule, p.step)
}

// fetchCritical starts to fetch the critical rows of a step.
func (c *Cache) fetchCritical(st *Step) error {
	c.arriving = st
	if err := c.critical.sendRows(&st.cache.critical); err != nil {
		return err
	}
	c.critical.startExchange()
	return nil
}

// insertCritical waits for the critical rows being fetched and puts them into the cache.
func (c *Cache) insertCritical() error {
	st := c.arriving
	if st == nil {
		return nil
	}
	c.arriving = nil
	return c.critical.insertRows(&st.cache.critical)
}

// growSlots makes room in the slot lists for the slots of a plan.
func (c *Cache) growSlots(p *cachePlan) {
	if n := p.slots - len(c.at); n > 0 {
		c.at = append(c.at, make([]rowKey, n)...)
	}
	c.check.growSlots(p.slots)
}

// Crowded reports whether this trainer's cache had to evict rows before their last known
// use, to make room.
func (c *Cache) Crowded() bool { return c.crowded }

// DelayedTook is as in Exchange.
func (c *Cache) DelayedTook() time.Duration { return c.x.delayed.took }

// Settle brings every owner's rows to their values after the last step. Rows stay cached.
func (c *Cache) Settle() error {
	if err := c.insertCritical(); err != nil {
		return err
	}
	c.startDelayed(nil)
	if err := c.x.delayed.waitJob(); err != nil {
		return err
	}
	return c.flushAll()
}

// Peek is that of the exchange. It must follow Settle.
func (c *Cache) Peek(st *Step) (rows kernels.Matrix, index kernels.Buffer, err error) {
	return c.x.Peek(st)
}

// Moved returns the traffic that a step brings to this rank: full rows from owners and
// evicted rows from their writers, gradients of shared rows, and their sums.
func (c *Cache) Moved(st *Step) Moved {
	var m Moved
	p, me, fullRow, weights := st.cache, c.x.critical.Comm.Rank(), 4*c.stride, 4*c.x.shard.Width()
	for _, part := range []struct {
		t       *Traffic
		sums    *reduction
		evicted []*eviction
		fetched *transfer
	}{
		{&m.Critical, &p.now, []*eviction{&p.evictNow}, &p.critical},
		{&m.Delayed, &p.later, []*eviction{&p.evictLater, &p.evictForRoom}, &p.early},
	} {
		part.t.addRows(part.sums.perRank, me, weights)
		part.t.addRows(part.sums.ofOwner, me, weights)
		part.t.addRows(part.fetched.perOwner, me, fullRow)
		for _, d := range part.evicted {
			part.t.addRows(d.perRank, me, fullRow)
		}
	}
	return m
}
