package lrpp

import (
	"fmt"

	"github.com/ecrec/ecrec/oracle"
)

// cacheSlots hands out a trainer's cache slots to rows in the order of plans.
type cacheSlots struct {
	table slotTable
	// leaveNow and leave are the slots of what leaves after the step before, and after
	// or while the one before that: their rows are gone when later ones come.
	leaveNow, leave, leaveBefore []int32
	at                           []int32 // scratch: the slot of each word
}

// wants lists what this rank does as trainer, from the words that owners told it,
// with the slice's own plan.
func (c *cachePlan) wants(s *cacheSlots, words []uint64, perRank []int, plan *oracle.Plan) {
	s.at = resize(s.at, len(words))
	s.give(c, words, perRank)
	c.slots = len(s.table.keys)
	i, row := 0, 0
	for r, n := range perRank {
		for _, x := range words[i : i+n] {
			w, at := word(x), s.at[i]
			i++
			if w.has(makesRoom) {
				continue
			}
			key := keyOf(r-c.first, w.slot())
			mine := !w.has(ofAll) || writer(r, c.trainers) == c.rank
			switch {
			case w.has(fetchedEarly):
				c.early.bring(r, at, key, mine, w.before(c.step))
			case w.has(fetchedCritical):
				c.critical.bring(r, at, key, mine, w.before(c.step))
			}
			if w.has(wanted) {
				if row == len(plan.Slots) || plan.Slots[row] != w.slot() {
					panic(fmt.Sprintf("lrpp: step %d: the owner on rank %d decided about slot %d, which was not asked for in this order", c.step, r, w.slot()))
				}
				c.uses(at, key, w.before(c.step))
			}
			c.updates(r, w, at, plan, row)
			if w.has(wanted) {
				row++
			}
			switch {
			case w.has(leavesNow):
				c.leaveNow.drop(r, at, mine, c.step)
			case w.has(leavesLater):
				c.leave.drop(r, at, mine, c.step)
			}
		}
	}
	if row != len(plan.Slots) {
		panic(fmt.Sprintf("lrpp: step %d: owners decided about %d of %d rows", c.step, row, len(plan.Slots)))
	}
	c.index = resize(c.index, len(plan.Index))
	for l, u := range plan.Index {
		c.index[l] = c.used.cached[u]
	}
	s.leaveBefore = append(s.leaveBefore[:0], c.leave.dropped...)
	s.leaveNow = append(s.leaveNow[:0], c.leaveNow.dropped...)
	s.leave, s.leaveBefore = s.leaveBefore, s.leave
}

// give finds the slot of each word's row. Slots are given in the order in which
// rows leave and come, so that a row comes to a slot only once that is free.
func (s *cacheSlots) give(c *cachePlan, words []uint64, perRank []int) {
	for _, slot := range s.leaveBefore {
		s.table.release(slot)
	}
	i := 0
	for r, n := range perRank {
		for _, x := range words[i : i+n] {
			w := word(x)
			key := keyOf(r-c.first, w.slot())
			switch {
			case w.has(makesRoom):
				s.at[i] = s.table.find(key)
				mine := !w.has(ofAll) || writer(r, c.trainers) == c.rank
				c.room.drop(r, s.at[i], mine, w.before(c.step))
				s.table.release(s.at[i])
			case w.has(fetchedEarly):
				s.at[i] = s.table.take(key)
			}
			i++
		}
	}
	for _, slot := range s.leaveNow {
		s.table.release(slot)
	}
	i = 0
	for r, n := range perRank {
		part := words[i : i+n]
		for k, x := range part {
			if k%touchBlock == 0 {
				s.table.touch(r-c.first, part[k:min(k+touchBlock, n)])
			}
			w := word(x)
			key := keyOf(r-c.first, w.slot())
			switch {
			case w.has(fetchedCritical):
				s.at[i] = s.table.take(key)
			case !w.has(makesRoom) && !w.has(fetchedEarly):
				s.at[i] = s.table.find(key)
			}
			i++
		}
	}
}

func (t *transfer) bring(rank int, slot int32, key rowKey, mine bool, version int64) {
	if mine {
		key |= written
	}
	t.cached, t.rows, t.version = append(t.cached, slot), append(t.rows, key), append(t.version, version)
	t.perOwner[rank]++
}

// drop has a row leave, and be sent to its owner's rank if it is this trainer's to
// write back.
func (d *departure) drop(rank int, slot int32, mine bool, version int64) {
	d.dropped = append(d.dropped, slot)
	if mine {
		d.cached, d.version = append(d.cached, slot), append(d.version, version)
		d.perOwner[rank]++
	}
}

func (c *cachePlan) uses(slot int32, key rowKey, before int64) {
	u := &c.used
	u.cached, u.rows, u.before = append(u.cached, slot), append(u.rows, key), append(u.before, before)
}

// updates lists who updates a row of the step, which is the given one of plan
// where this trainer wants it.
func (c *cachePlan) updates(rank int, w word, slot int32, plan *oracle.Plan, row int) {
	before := w.before(c.step)
	if !w.has(ofAll) {
		c.own.pos = append(c.own.pos, plan.Pos[plan.Start[row]:plan.Start[row+1]]...)
		c.own.start = append(c.own.start, int32(len(c.own.pos)))
		c.own.cached, c.own.before = append(c.own.cached, slot), append(c.own.before, before)
		return
	}
	r := c.reductionOf(w)
	r.cached, r.before = append(r.cached, slot), append(r.before, before)
	r.ofOwner[rank]++
	if w.has(wanted) {
		r.pos = append(r.pos, plan.Pos[plan.Start[row]:plan.Start[row+1]]...)
		r.start = append(r.start, int32(len(r.pos)))
		r.perOwner[rank]++
	}
}
