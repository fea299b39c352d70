package lrpp

import (
	"time"

	"fmt"

	"github.com/ecrec/ecrec/kernels"
)

// Cache brings rows to trainers in mode Cached and keeps them there. It shares the
// lanes of an Exchange; like that, it belongs to the training goroutine, and all
// ranks call the same methods in the same order.
type Cache struct {
	x        *Exchange
	trainers int // ranks, the first ones
	first    int // rank of the owner 0
	stride   int // floats of a row with its state
	check    *copies

	rows kernels.Matrix // (slots, weights and state)
	// at says which rows the cache holds, by slot, as of the step that is trained.
	// Invariant: rows that are not in use belong to the delayed lane while a step
	// computes; slots of the two are disjoint.
	at                []rowKey
	critical, delayed cacheLane
	sumsOwn           kernels.Buffer

	next     *Step // that Begin was told of; its early rows come
	arriving *Step // its critical rows come
	later    unfinished
	flush    flush
	crowded  bool
}

// unfinished is what a step left to be done while the next one computes.
type unfinished struct {
	plan *cachePlan // nil: nothing
	sums kernels.Matrix
	opt  kernels.Optimizer
}

// CacheOptions make a Cache.
type CacheOptions struct {
	// Trainers and FirstOwner are those of PlanOptions; Rows is what CacheRows gives.
	Trainers, FirstOwner, Rows int
}

// NewCache makes the cache of one rank, on the lanes of x. Memory is taken as rows
// come.
func NewCache(x *Exchange, o CacheOptions) (*Cache, error) {
	c := &Cache{x: x, trainers: o.Trainers, first: o.FirstOwner, stride: x.shard.RowBytes() / 4}
	c.critical, c.delayed = cacheLane{lane: x.critical, c: c}, cacheLane{lane: x.delayed.lane, c: c}
	if x.check != nil {
		c.check = newCopies()
	}
	if x.critical.Comm.Rank() >= o.Trainers {
		c.rows = kernels.Matrix{Cols: c.stride, Stride: c.stride}
		return c, nil
	}
	b, err := x.dev.Alloc(4*c.stride*o.Rows, kernels.Sparse)
	if err != nil {
		return nil, fmt.Errorf("lrpp: a cache of %d rows of %d bytes: %w; lower cache.max_bytes", o.Rows, 4*c.stride, err)
	}
	c.rows = kernels.Mat(b, o.Rows, c.stride)
	return c, nil
}

// Close frees the cache. The exchange is closed before.
func (c *Cache) Close() {
	c.critical.free()
	c.delayed.free()
	freeAll(c.x.dev, &c.rows.Buf, &c.sumsOwn)
}

// Begin returns the rows of step st, the weights in the cache, and the lookups'
// index into them, both valid until End. While the step computes, what the one
// before left for later is done; then the early rows of next come, which is nil
// after the last step. A step that does not follow the one before finds the cache
// empty: Settle has come before.
func (c *Cache) Begin(st, next *Step) (rows kernels.Matrix, index kernels.Buffer, err error) {
	if c.next != st {
		clear(c.at)
		c.fit(st.cache)
		if c.x.repairs() {
			if err := c.x.repairFor(st.cache.early.slots, st.cache.critical.slots); err != nil {
				return rows, index, err
			}
		}
		if err := c.critical.prepare(st.cache); err != nil {
			return rows, index, err
		}
		if err := c.fetchCritical(st); err != nil {
			return rows, index, err
		}
	}
	if err := c.land(); err != nil {
		return rows, index, err
	}
	c.next = next
	if next != nil {
		c.fit(next.cache)
		c.crowded = c.crowded || len(next.cache.room.dropped) > 0
	}
	c.check.read(c.at, st.cache)
	if index, err = c.x.upload(st.cache.index); err != nil {
		return rows, index, err
	}
	c.startDelayed(next)
	return c.rows.Columns(0, c.x.shard.Width()), index, nil
}

// startDelayed has what moves meanwhile begin.
func (c *Cache) startDelayed(next *Step) {
	later, d := c.later, &c.delayed
	c.later = unfinished{}
	if later.plan == nil && next == nil {
		return
	}
	repair := next != nil && c.x.repairs()
	c.x.delayed.start(func() error {
		if later.plan != nil {
			if err := c.finish(&later); err != nil {
				return err
			}
		}
		if next == nil {
			return nil
		}
		if repair {
			if err := c.x.repairFor(next.cache.early.slots, next.cache.critical.slots); err != nil {
				return err
			}
		}
		c.x.delayed.track.Begin("rows", next.number)
		defer c.x.delayed.track.End()
		return d.prepare(next.cache)
	})
}

// finish does what a step left.
func (c *Cache) finish(u *unfinished) error {
	c.x.delayed.track.Begin("gradients", u.plan.step)
	defer c.x.delayed.track.End()
	d := &c.delayed
	if err := d.push(&u.plan.later, u.sums); err != nil {
		return err
	}
	if err := d.update(&u.plan.later, u.opt, u.plan.step); err != nil {
		return err
	}
	return d.leave(&u.plan.leave)
}

// End takes the gradients of the lookups, (samples, tables*width), of the step
// that began. Before it returns, rows that the next step uses have been updated,
// and those that it finds elsewhere are on their way.
func (c *Cache) End(st *Step, opt kernels.Optimizer, lookups kernels.Matrix) error {
	p := st.cache
	now, err := c.x.sum(&c.x.sumsNow, p.now.start, p.now.pos, lookups)
	if err != nil {
		return err
	}
	if err := c.x.delayed.wait(); err != nil {
		return err
	}
	if err := c.critical.push(&p.now, now); err != nil {
		return err
	}
	c.critical.begin()
	if err := c.updateOwn(p, opt, lookups); err != nil { // while that travels
		return err
	}
	later, err := c.x.sum(&c.x.sumsLate, p.later.start, p.later.pos, lookups)
	if err != nil {
		return err
	}
	if err := c.critical.update(&p.now, opt, p.step); err != nil {
		return err
	}
	if err := c.critical.leave(&p.leaveNow); err != nil {
		return err
	}
	c.later = unfinished{plan: p, sums: later, opt: opt}
	if c.next != nil {
		return c.fetchCritical(c.next)
	}
	return nil
}

// updateOwn updates the rows that this trainer alone has.
func (c *Cache) updateOwn(p *cachePlan, opt kernels.Optimizer, lookups kernels.Matrix) error {
	sums, err := c.x.sum(&c.sumsOwn, p.own.start, p.own.pos, lookups)
	if err != nil {
		return err
	}
	return c.critical.apply(p.own.cached, p.own.before, sums, opt, p.step)
}

// fetchCritical starts to bring the critical rows of a step.
func (c *Cache) fetchCritical(st *Step) error {
	c.arriving = st
	if err := c.critical.fetch(&st.cache.critical); err != nil {
		return err
	}
	c.critical.begin()
	return nil
}

// land has the critical rows that come put into the cache.
func (c *Cache) land() error {
	st := c.arriving
	if st == nil {
		return nil
	}
	c.arriving = nil
	return c.critical.land(&st.cache.critical)
}

// fit makes room to say what the slots hold that a plan knows of.
func (c *Cache) fit(p *cachePlan) {
	if n := p.slots - len(c.at); n > 0 {
		c.at = append(c.at, make([]rowKey, n)...)
	}
	c.check.fit(p.slots)
}

// Crowded reports whether rows have left this trainer's cache before their last
// known use, to make room.
func (c *Cache) Crowded() bool { return c.crowded }

// DelayedTook is as Exchange's.
func (c *Cache) DelayedTook() time.Duration { return c.x.delayed.took }

// Settle has every owner's row at its value after the last step. Rows stay
// cached.
func (c *Cache) Settle() error {
	if err := c.land(); err != nil {
		return err
	}
	c.startDelayed(nil)
	if err := c.x.delayed.wait(); err != nil {
		return err
	}
	return c.flushAll()
}

// Peek is that of the exchange. It follows Settle.
func (c *Cache) Peek(st *Step) (rows kernels.Matrix, index kernels.Buffer, err error) {
	return c.x.Peek(st)
}

// Moved is what a step brings to this rank: whole rows from owners and, as they
// leave, from writers; gradients of shared rows, and their sums.
func (c *Cache) Moved(st *Step) Moved {
	var m Moved
	p, me, whole, weights := st.cache, c.x.critical.Comm.Rank(), 4*c.stride, 4*c.x.shard.Width()
	for _, part := range []struct {
		t      *Traffic
		sums   *reduction
		leaves []*departure
		comes  *transfer
	}{
		{&m.Critical, &p.now, []*departure{&p.leaveNow}, &p.critical},
		{&m.Delayed, &p.later, []*departure{&p.leave, &p.room}, &p.early},
	} {
		part.t.add(part.sums.perRank, me, weights)
		part.t.add(part.sums.ofOwner, me, weights)
		part.t.add(part.comes.perOwner, me, whole)
		for _, d := range part.leaves {
			part.t.add(d.perRank, me, whole)
		}
	}
	return m
}
