package lrpp

import "fmt"

// copyCheck asserts the invariant of the package in mode Cached at a trainer. A copy is
// read for a step when it has every update of the previous steps, and delayed work
// touches no row that the computing step uses. A nil copyCheck checks nothing.
type copyCheck struct {
	version  []int64      // by cache slot: the last step whose update is done
	inUse    []int64      // the last step that read it
	step     int64        // the step that computes
	violated func(string) // called with each violation; panics except in tests
}

func newCopyCheck() *copyCheck {
	return &copyCheck{violated: func(what string) { panic("lrpp: " + what) }}
}

func (c *copyCheck) growSlots(slots int) {
	if c == nil {
		return
	}
	if n := slots - len(c.version); n > 0 {
		c.version, c.inUse = append(c.version, make([]int64, n)...), append(c.inUse, make([]int64, n)...)
	}
}

// checkReads checks the rows of a step that begins.
func (c *copyCheck) checkReads(at []rowKey, p *cachePlan) {
	if c == nil {
		return
	}
	c.step = p.step
	for i, slot := range p.used.cached {
		c.inUse[slot] = p.step
		k := p.used.rows[i]
		if at[slot].row() != k {
			c.violated(fmt.Sprintf("step %d reads slot %d of owner %d at slot %d of the cache, which holds another row", p.step,
				k.slot(), k.owner(), slot))
		}
		if before := p.used.before[i]; before != 0 && c.version[slot] != before {
			c.violated(fmt.Sprintf("stale copy: step %d reads slot %d of owner %d as of step %d, but step %d was the last to update it",
				p.step, k.slot(), k.owner(), c.version[slot], before))
		}
	}
}

// recordUpdates checks and records the updates of copies by a step.
func (c *copyCheck) recordUpdates(cached []int32, before []int64, step int64) {
	if c == nil {
		return
	}
	for i, slot := range cached {
		c.checkIdle(slot, step, "updated")
		if b := before[i]; b != 0 && c.version[slot] != b {
			c.violated(fmt.Sprintf("slot %d of the cache is updated for step %d after step %d, not after step %d", slot, step, c.version[slot], b))
		}
		c.version[slot] = step
	}
}

// recordInserts checks and records the rows inserted into slots.
func (c *copyCheck) recordInserts(at []rowKey, t *transfer) {
	if c == nil {
		return
	}
	for i, slot := range t.cached {
		if at[slot] != 0 {
			c.violated(fmt.Sprintf("slot %d of the cache is overwritten before its row was evicted", slot))
		}
		c.version[slot] = t.version[i]
	}
}

// checkEvictions checks rows that are evicted while step computes, or after it.
func (c *copyCheck) checkEvictions(at []rowKey, d *eviction) {
	if c == nil {
		return
	}
	for _, slot := range d.dropped {
		if at[slot] == 0 {
			c.violated(fmt.Sprintf("slot %d of the cache, which holds no row, is dropped", slot))
		}
	}
	for i, slot := range d.cached {
		v := d.version[i]
		c.checkIdle(slot, v, "written back")
		if v != 0 && c.version[slot] != v {
			c.violated(fmt.Sprintf("slot %d of the cache is written back as of step %d, but step %d was the last to update it",
				slot, c.version[slot], v))
		}
	}
}

// checkIdle checks that a row which is changed for one step is not in use by a later one.
func (c *copyCheck) checkIdle(slot int32, step int64, what string) {
	if used := c.inUse[slot]; used == c.step && step != c.step {
		c.violated(fmt.Sprintf("slot %d of the cache is %s for step %d while step %d uses it", slot, what, step, used))
	}
}

// checkFetches checks rows that an owner sends to caches.
func (c *ownerCheck) checkFetches(t *transfer) {
	if c == nil {
		return
	}
	for i, slot := range t.slots {
		if v := t.versionOf[i]; v != 0 && c.applied[slot] != v {
			c.violated(fmt.Sprintf("stale fetch: slot %d is fetched as of step %d, but step %d was the last to update it", slot, c.applied[slot], v))
		}
	}
}

// recordStores records rows that are written back. A flush has no versions and changes
// nothing that a fetch may see.
func (c *ownerCheck) recordStores(t *transfer) {
	if c == nil {
		return
	}
	for i, v := range t.versionOf {
		if v != 0 {
			c.applied[t.slots[i]] = v
		}
	}
}
