package lrpp

import (
	"fmt"

	"github.com/ecrec/ecrec/oracle"
)

// cacheSlots assigns a trainer's cache slots to rows in plan order.
type cacheSlots struct {
	table slotTable
	// evictNow are the slots of the rows evicted after the previous step, evictLater
	// those evicted while the step after their last use computes. evictBefore is
	// evictLater of the step before. Their slots are free when later rows are fetched.
	evictNow, evictLater, evictBefore []int32
	at                                []int32 // scratch: the cache slot of each operation's row
}

// listTrainerSide derives this rank's lists as trainer from the row operations that
// owners sent and from the slice's own plan.
func (c *cachePlan) listTrainerSide(s *cacheSlots, words []uint64, perRank []int, plan *oracle.Plan) {
	s.at = resize(s.at, len(words))
	s.assignSlots(c, words, perRank)
	c.slots = len(s.table.keys)
	i, row := 0, 0
	for r, n := range perRank {
		for _, x := range words[i : i+n] {
			w, at := rowOp(x), s.at[i]
			i++
			if w.has(opEvictForRoom) {
				continue
			}
			key := keyOf(r-c.first, w.slot())
			mine := !w.has(opShared) || writer(r, c.trainers) == c.rank
			switch {
			case w.has(opFetchEarly):
				c.early.addReceive(r, at, key, mine, w.lastUse(c.step))
			case w.has(opFetchCritical):
				c.critical.addReceive(r, at, key, mine, w.lastUse(c.step))
			}
			if w.has(opUsed) {
				if row == len(plan.Slots) || plan.Slots[row] != w.slot() {
					panic(fmt.Sprintf("lrpp: step %d: the owner on rank %d sent a row operation for slot %d, which was not requested in this order",
						c.step, r, w.slot()))
				}
				c.addUse(at, key, w.lastUse(c.step))
			}
			c.addUpdate(r, w, at, plan, row)
			if w.has(opUsed) {
				row++
			}
			switch {
			case w.has(opEvictNow):
				c.evictNow.addRow(r, at, mine, c.step)
			case w.has(opEvictLater):
				c.evictLater.addRow(r, at, mine, c.step)
			}
		}
	}
	if row != len(plan.Slots) {
		panic(fmt.Sprintf("lrpp: step %d: owners sent row operations for %d of %d rows", c.step, row, len(plan.Slots)))
	}
	c.index = resize(c.index, len(plan.Index))
	for l, u := range plan.Index {
		c.index[l] = c.used.cached[u]
	}
	s.evictBefore = append(s.evictBefore[:0], c.evictLater.dropped...)
	s.evictNow = append(s.evictNow[:0], c.evictNow.dropped...)
	s.evictLater, s.evictBefore = s.evictBefore, s.evictLater
}

// assignSlots finds or assigns the cache slot of each operation's row. Slots are freed
// and assigned in the order in which rows are evicted and fetched. A row is therefore
// assigned a slot only once that slot is free.
func (s *cacheSlots) assignSlots(c *cachePlan, words []uint64, perRank []int) {
	for _, slot := range s.evictBefore {
		s.table.releaseSlot(slot)
	}
	i := 0
	for r, n := range perRank {
		for _, x := range words[i : i+n] {
			w := rowOp(x)
			key := keyOf(r-c.first, w.slot())
			switch {
			case w.has(opEvictForRoom):
				s.at[i] = s.table.slotOf(key)
				mine := !w.has(opShared) || writer(r, c.trainers) == c.rank
				c.evictForRoom.addRow(r, s.at[i], mine, w.lastUse(c.step))
				s.table.releaseSlot(s.at[i])
			case w.has(opFetchEarly):
				s.at[i] = s.table.assignSlot(key)
			}
			i++
		}
	}
	for _, slot := range s.evictNow {
		s.table.releaseSlot(slot)
	}
	i = 0
	for r, n := range perRank {
		part := words[i : i+n]
		for k, x := range part {
			if k%touchBlock == 0 {
				s.table.touchRows(r-c.first, part[k:min(k+touchBlock, n)])
			}
			w := rowOp(x)
			key := keyOf(r-c.first, w.slot())
			switch {
			case w.has(opFetchCritical):
				s.at[i] = s.table.assignSlot(key)
			case !w.has(opEvictForRoom) && !w.has(opFetchEarly):
				s.at[i] = s.table.slotOf(key)
			}
			i++
		}
	}
}

func (t *transfer) addReceive(rank int, slot int32, key rowKey, mine bool, version int64) {
	if mine {
		key |= written
	}
	t.cached, t.rows, t.version = append(t.cached, slot), append(t.rows, key), append(t.version, version)
	t.perOwner[rank]++
}

// addRow adds a row to be evicted. If this trainer writes it back, it is also sent to the
// owner's rank.
func (d *eviction) addRow(rank int, slot int32, mine bool, version int64) {
	d.dropped = append(d.dropped, slot)
	if mine {
		d.cached, d.version = append(d.cached, slot), append(d.version, version)
		d.perOwner[rank]++
	}
}

func (c *cachePlan) addUse(slot int32, key rowKey, before int64) {
	u := &c.used
	u.cached, u.rows, u.before = append(u.cached, slot), append(u.rows, key), append(u.before, before)
}

// addUpdate records how a row of the step is updated. If this trainer uses the row, row
// is its position in plan.
func (c *cachePlan) addUpdate(rank int, w rowOp, slot int32, plan *oracle.Plan, row int) {
	before := w.lastUse(c.step)
	if !w.has(opShared) {
		c.own.pos = append(c.own.pos, plan.Pos[plan.Start[row]:plan.Start[row+1]]...)
		if len(plan.Factors) > 0 {
			c.own.factors = append(c.own.factors, plan.Factors[plan.Start[row]:plan.Start[row+1]]...)
		}
		c.own.start = append(c.own.start, int32(len(c.own.pos)))
		c.own.cached, c.own.before = append(c.own.cached, slot), append(c.own.before, before)
		return
	}
	r := c.reductionOf(w)
	r.cached, r.before = append(r.cached, slot), append(r.before, before)
	r.ofOwner[rank]++
	if w.has(opUsed) {
		r.pos = append(r.pos, plan.Pos[plan.Start[row]:plan.Start[row+1]]...)
		if len(plan.Factors) > 0 {
			r.factors = append(r.factors, plan.Factors[plan.Start[row]:plan.Start[row+1]]...)
		}
		r.start = append(r.start, int32(len(r.pos)))
		r.perOwner[rank]++
	}
}
