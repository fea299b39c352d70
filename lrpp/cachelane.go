package lrpp

import (
	"github.com/ecrec/ecrec/kernels"
)

// cacheLane moves rows between owners and caches on a lane.
type cacheLane struct {
	*lane
	c *Cache

	sent, arrived kernels.Buffer // whole rows
	sums, copies  kernels.Buffer // of gradients: to all trainers, and those that come
	slots         kernels.Buffer // a list on the device
	numbers       kernels.Buffer // 0, 1, 2, ... on the device
	counted       []int32        // the same here
}

func (l *cacheLane) free() {
	freeAll(l.dev, &l.sent, &l.arrived, &l.sums, &l.copies, &l.slots, &l.numbers)
}

// prepare makes room for a step and brings its early rows.
func (l *cacheLane) prepare(p *cachePlan) error {
	if err := l.leave(&p.room); err != nil {
		return err
	}
	if err := l.fetch(&p.early); err != nil {
		return err
	}
	return l.land(&p.early)
}

// matrix is rows of a buffer that grows.
func (l *cacheLane) matrix(b *kernels.Buffer, rows, width int) (kernels.Matrix, error) {
	if err := grow(l.dev, b, rows*width, kernels.Shared); err != nil {
		return kernels.Matrix{}, err
	}
	return kernels.Mat(*b, rows, width), nil
}

// list puts slots on the device.
func (l *cacheLane) list(slots []int32) (kernels.Buffer, error) {
	if err := l.grow(&l.slots, len(slots)); err != nil {
		return kernels.Buffer{}, err
	}
	return l.upload(l.slots, slots), nil
}

// fetch makes the exchange that sends rows from owners to trainers, for land.
func (l *cacheLane) fetch(t *transfer) error {
	sent, err := l.matrix(&l.sent, len(t.slots), l.c.stride)
	if err != nil {
		return err
	}
	arrived, err := l.matrix(&l.arrived, len(t.cached), l.c.stride)
	if err != nil {
		return err
	}
	l.c.x.check.fetched(t)
	if err := l.shard.ReadWhole(sent, t.slots); err != nil {
		return err
	}
	if err := l.Stream.Sync(); err != nil {
		return err
	}
	l.exchange(arrived.Buf, t.perOwner, sent.Buf, t.perRank, l.c.stride)
	return nil
}

// land puts the rows that have come into the cache.
func (l *cacheLane) land(t *transfer) error {
	if err := l.wait(); err != nil || len(t.cached) == 0 {
		return err
	}
	slots, err := l.list(t.cached)
	if err != nil {
		return err
	}
	l.Stream.ScatterRows(l.c.rows, kernels.Mat(l.arrived, len(t.cached), l.c.stride), slots)
	l.c.check.land(l.c.at, t)
	for i, slot := range t.cached {
		l.c.at[slot] = t.rows[i]
	}
	return l.Stream.Sync()
}

// leave has rows leave the cache and brings their values to the owners.
func (l *cacheLane) leave(d *departure) error {
	l.c.check.leave(l.c.at, d)
	for _, slot := range d.dropped {
		l.c.at[slot] = 0
	}
	return l.writeBack(&d.transfer)
}

// writeBack brings rows of the cache to their owners.
func (l *cacheLane) writeBack(t *transfer) error {
	sent, err := l.matrix(&l.sent, len(t.cached), l.c.stride)
	if err != nil {
		return err
	}
	arrived, err := l.matrix(&l.arrived, len(t.slots), l.c.stride)
	if err != nil {
		return err
	}
	if len(t.cached) > 0 {
		slots, err := l.list(t.cached)
		if err != nil {
			return err
		}
		l.Stream.GatherRows(sent, l.c.rows, slots)
	}
	if err := l.Stream.Sync(); err != nil {
		return err
	}
	l.exchange(arrived.Buf, t.perRank, sent.Buf, t.perOwner, l.c.stride)
	if err := l.wait(); err != nil {
		return err
	}
	l.c.x.check.stored(t)
	if err := l.shard.StoreWhole(t.slots, arrived); err != nil {
		return err
	}
	return l.Stream.Sync()
}

// push makes the exchange that sends the gradients of shared rows to the owners,
// for update.
func (l *cacheLane) push(r *reduction, sums kernels.Matrix) error {
	width := l.shard.Width()
	grads, err := l.matrix(&l.grads, r.received, width)
	if err != nil {
		return err
	}
	l.exchange(grads.Buf, r.perRank, sums.Buf, r.perOwner, width)
	return nil
}

// update sums the gradients that have come, tells all trainers, and updates this
// one's copies.
func (l *cacheLane) update(r *reduction, opt kernels.Optimizer, step int64) error {
	if err := l.wait(); err != nil {
		return err
	}
	width := l.shard.Width()
	all, err := l.matrix(&l.sums, r.sums*l.c.trainers, width)
	if err != nil {
		return err
	}
	copies, err := l.matrix(&l.copies, len(r.cached), width)
	if err != nil {
		return err
	}
	if r.sums > 0 {
		start, pos, err := l.segments(r.sumStart, r.sumPos)
		if err != nil {
			return err
		}
		sums := all.RowRange(0, r.sums)
		l.Stream.SumRows(sums, kernels.Mat(l.grads, r.received, width), start, pos)
		for q := 1; q < l.c.trainers; q++ {
			l.Stream.Copy(all.RowRange(q*r.sums, r.sums).Buf, sums.Buf)
		}
	}
	if err := l.Stream.Sync(); err != nil {
		return err
	}
	l.exchange(copies.Buf, r.ofOwner, all.Buf, r.toRank, width)
	if err := l.wait(); err != nil {
		return err
	}
	return l.apply(r.cached, r.before, copies, opt, step)
}

// apply updates rows of the cache with one gradient each.
func (l *cacheLane) apply(cached []int32, before []int64, grads kernels.Matrix, opt kernels.Optimizer, step int64) error {
	if len(cached) == 0 {
		return nil
	}
	l.c.check.update(cached, before, step)
	for _, slot := range cached {
		l.c.at[slot] |= changed
	}
	slots, err := l.list(cached)
	if err != nil {
		return err
	}
	n := len(cached)
	if err := l.count(n + 1); err != nil {
		return err
	}
	l.Stream.UpdateRows(opt, l.c.rows, slots, grads, l.numbers.SliceFloats(0, n+1), l.numbers.SliceFloats(0, n))
	return l.Stream.Sync()
}

// count has n numbers on the device.
func (l *cacheLane) count(n int) error {
	if n <= len(l.counted) {
		return nil
	}
	if err := l.grow(&l.numbers, n); err != nil {
		return err
	}
	for i := len(l.counted); i < l.numbers.Floats(); i++ {
		l.counted = append(l.counted, int32(i))
	}
	l.upload(l.numbers, l.counted)
	return nil
}
