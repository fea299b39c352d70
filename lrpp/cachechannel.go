package lrpp

import (
	"github.com/ecrec/ecrec/kernels"
)

// cacheChannel moves rows between owners and caches on a channel.
type cacheChannel struct {
	*channel
	cache *Cache

	sent, arrived kernels.Buffer // full rows
	sums, copies  kernels.Buffer // of gradients: those sent to all trainers, and those received
	slots         kernels.Buffer // a list on the device
	numbers       kernels.Buffer // 0, 1, 2, ... on the device
	numbersHost   []int32        // the same on the host
}

func (ch *cacheChannel) freeBuffers() {
	freeAll(ch.dev, &ch.sent, &ch.arrived, &ch.sums, &ch.copies, &ch.slots, &ch.numbers)
}

// prepareStep makes room for a step and fetches its early rows.
func (ch *cacheChannel) prepareStep(p *cachePlan) error {
	if err := ch.evictRows(&p.evictForRoom); err != nil {
		return err
	}
	if err := ch.sendRows(&p.early); err != nil {
		return err
	}
	return ch.insertRows(&p.early)
}

// growMatrix returns a matrix of rows in b, which it grows if necessary.
func (ch *cacheChannel) growMatrix(b *kernels.Buffer, rows, width int) (kernels.Matrix, error) {
	if err := grow(ch.dev, b, rows*width, kernels.Shared); err != nil {
		return kernels.Matrix{}, err
	}
	return kernels.Mat(*b, rows, width), nil
}

// uploadSlots copies slots to the device.
func (ch *cacheChannel) uploadSlots(slots []int32) (kernels.Buffer, error) {
	if err := ch.growBuffer(&ch.slots, len(slots)); err != nil {
		return kernels.Buffer{}, err
	}
	return ch.uploadList(ch.slots, slots), nil
}

// sendRows prepares the exchange that sends rows from owners to trainers, for insertRows.
func (ch *cacheChannel) sendRows(t *transfer) error {
	sent, err := ch.growMatrix(&ch.sent, len(t.slots), ch.cache.stride)
	if err != nil {
		return err
	}
	arrived, err := ch.growMatrix(&ch.arrived, len(t.cached), ch.cache.stride)
	if err != nil {
		return err
	}
	ch.cache.x.check.checkFetches(t)
	if err := ch.shard.ReadRows(sent, t.slots); err != nil {
		return err
	}
	if err := ch.Stream.Sync(); err != nil {
		return err
	}
	ch.prepareExchange(arrived.Buf, t.perOwner, sent.Buf, t.perRank, ch.cache.stride)
	return nil
}

// insertRows puts the received rows into the cache.
func (ch *cacheChannel) insertRows(t *transfer) error {
	if err := ch.waitExchange(); err != nil || len(t.cached) == 0 {
		return err
	}
	slots, err := ch.uploadSlots(t.cached)
	if err != nil {
		return err
	}
	ch.Stream.ScatterRows(ch.cache.rows, kernels.Mat(ch.arrived, len(t.cached), ch.cache.stride), slots)
	ch.cache.check.recordInserts(ch.cache.at, t)
	for i, slot := range t.cached {
		ch.cache.at[slot] = t.rows[i]
	}
	return ch.Stream.Sync()
}

// evictRows removes rows from the cache and sends their values to the owners.
func (ch *cacheChannel) evictRows(d *eviction) error {
	ch.cache.check.checkEvictions(ch.cache.at, d)
	for _, slot := range d.dropped {
		ch.cache.at[slot] = 0
	}
	return ch.writeBack(&d.transfer)
}

// writeBack sends rows of the cache to their owners, which store them.
func (ch *cacheChannel) writeBack(t *transfer) error {
	sent, err := ch.growMatrix(&ch.sent, len(t.cached), ch.cache.stride)
	if err != nil {
		return err
	}
	arrived, err := ch.growMatrix(&ch.arrived, len(t.slots), ch.cache.stride)
	if err != nil {
		return err
	}
	if len(t.cached) > 0 {
		slots, err := ch.uploadSlots(t.cached)
		if err != nil {
			return err
		}
		ch.Stream.GatherRows(sent, ch.cache.rows, slots)
	}
	if err := ch.Stream.Sync(); err != nil {
		return err
	}
	ch.prepareExchange(arrived.Buf, t.perRank, sent.Buf, t.perOwner, ch.cache.stride)
	if err := ch.waitExchange(); err != nil {
		return err
	}
	ch.cache.x.check.recordStores(t)
	if err := ch.shard.StoreRows(t.slots, arrived); err != nil {
		return err
	}
	return ch.Stream.Sync()
}

// sendGradients prepares the exchange that sends the gradients of shared rows to the
// owners, for updateShared.
func (ch *cacheChannel) sendGradients(r *reduction, sums kernels.Matrix) error {
	width := ch.shard.Width()
	grads, err := ch.growMatrix(&ch.grads, r.received, width)
	if err != nil {
		return err
	}
	ch.prepareExchange(grads.Buf, r.perRank, sums.Buf, r.perOwner, width)
	return nil
}

// updateShared sums the received gradients, sends the sums to all trainers, and updates
// this trainer's copies.
func (ch *cacheChannel) updateShared(r *reduction, rule kernels.RowRule, step int64) error {
	if err := ch.waitExchange(); err != nil {
		return err
	}
	width := ch.shard.Width()
	all, err := ch.growMatrix(&ch.sums, r.sums*ch.cache.trainers, width)
	if err != nil {
		return err
	}
	copies, err := ch.growMatrix(&ch.copies, len(r.cached), width)
	if err != nil {
		return err
	}
	if r.sums > 0 {
		start, pos, err := ch.uploadSegments(r.sumStart, r.sumPos)
		if err != nil {
			return err
		}
		sums := all.RowRange(0, r.sums)
		ch.Stream.SumRows(sums, kernels.Mat(ch.grads, r.received, width), start, pos)
		for q := 1; q < ch.cache.trainers; q++ {
			ch.Stream.Copy(all.RowRange(q*r.sums, r.sums).Buf, sums.Buf)
		}
	}
	if err := ch.Stream.Sync(); err != nil {
		return err
	}
	ch.prepareExchange(copies.Buf, r.ofOwner, all.Buf, r.toRank, width)
	if err := ch.waitExchange(); err != nil {
		return err
	}
	return ch.updateRows(r.cached, r.before, copies, rule, step)
}

// updateRows updates rows of the cache with one gradient each.
func (ch *cacheChannel) updateRows(cached []int32, before []int64, grads kernels.Matrix, rule kernels.RowRule, step int64) error {
	if len(cached) == 0 {
		return nil
	}
	ch.cache.check.recordUpdates(cached, before, step)
	for _, slot := range cached {
		ch.cache.at[slot] |= changed
	}
	slots, err := ch.uploadSlots(cached)
	if err != nil {
		return err
	}
	n := len(cached)
	if err := ch.growNumbers(n + 1); err != nil {
		return err
	}
	ch.Stream.UpdateRows(rule, ch.cache.rows, slots, grads, ch.numbers.SliceFloats(0, n+1), ch.numbers.SliceFloats(0, n))
	return ch.Stream.Sync()
}

// growNumbers makes sure that the device has n numbers.
func (ch *cacheChannel) growNumbers(n int) error {
	if n <= len(ch.numbersHost) {
		return nil
	}
	if err := ch.growBuffer(&ch.numbers, n); err != nil {
		return err
	}
	for i := len(ch.numbersHost); i < ch.numbers.Floats(); i++ {
		ch.numbersHost = append(ch.numbersHost, int32(i))
	}
	ch.uploadList(ch.numbers, ch.numbersHost)
	return nil
}
