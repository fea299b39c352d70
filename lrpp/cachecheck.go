package lrpp

import "fmt"

// copies asserts the invariant of the package in mode Cached at a trainer: a copy
// is read for a step when it has every update of the steps before, and what moves
// while a step computes touches no row of that. A nil copies checks nothing.
type copies struct {
	version []int64      // by slot of the cache: the last step whose update is done
	inUse   []int64      // the last step that read it
	step    int64        // that computes
	broken  func(string) // hears of what breaks it; panics but in tests
}

func newCopies() *copies {
	return &copies{broken: func(what string) { panic("lrpp: " + what) }}
}

func (c *copies) fit(slots int) {
	if c == nil {
		return
	}
	if n := slots - len(c.version); n > 0 {
		c.version, c.inUse = append(c.version, make([]int64, n)...), append(c.inUse, make([]int64, n)...)
	}
}

// read checks the rows of a step that begins.
func (c *copies) read(at []rowKey, p *cachePlan) {
	if c == nil {
		return
	}
	c.step = p.step
	for i, slot := range p.used.cached {
		c.inUse[slot] = p.step
		k := p.used.rows[i]
		if at[slot].row() != k {
			c.broken(fmt.Sprintf("step %d reads slot %d of owner %d at slot %d of the cache, where another row is", p.step, k.slot(), k.owner(), slot))
		}
		if before := p.used.before[i]; before != 0 && c.version[slot] != before {
			c.broken(fmt.Sprintf("stale copy: step %d reads slot %d of owner %d as of step %d, its last update before is of step %d",
				p.step, k.slot(), k.owner(), c.version[slot], before))
		}
	}
}

// update notes that copies are updated for a step.
func (c *copies) update(cached []int32, before []int64, step int64) {
	if c == nil {
		return
	}
	for i, slot := range cached {
		c.free(slot, step, "updated")
		if b := before[i]; b != 0 && c.version[slot] != b {
			c.broken(fmt.Sprintf("slot %d of the cache is updated for step %d after step %d, not after step %d", slot, step, c.version[slot], b))
		}
		c.version[slot] = step
	}
}

// land notes that rows come to slots.
func (c *copies) land(at []rowKey, t *transfer) {
	if c == nil {
		return
	}
	for i, slot := range t.cached {
		if at[slot] != 0 {
			c.broken(fmt.Sprintf("slot %d of the cache is overwritten before its row has left", slot))
		}
		c.version[slot] = t.version[i]
	}
}

// leave checks rows that leave while step computes, or after it.
func (c *copies) leave(at []rowKey, d *departure) {
	if c == nil {
		return
	}
	for _, slot := range d.dropped {
		if at[slot] == 0 {
			c.broken(fmt.Sprintf("slot %d of the cache, which holds no row, is dropped", slot))
		}
	}
	for i, slot := range d.cached {
		v := d.version[i]
		c.free(slot, v, "written back")
		if v != 0 && c.version[slot] != v {
			c.broken(fmt.Sprintf("slot %d of the cache is written back as of step %d, its last update is of step %d", slot, c.version[slot], v))
		}
	}
}

// free checks that a row which is worked on for a step is not in use by a later
// one.
func (c *copies) free(slot int32, step int64, what string) {
	if used := c.inUse[slot]; used == c.step && step != c.step {
		c.broken(fmt.Sprintf("slot %d of the cache is %s for step %d while step %d computes on it", slot, what, step, used))
	}
}

// fetched checks rows that leave the owner for caches.
func (c *check) fetched(t *transfer) {
	if c == nil {
		return
	}
	for i, slot := range t.slots {
		if v := t.versionOf[i]; v != 0 && c.applied[slot] != v {
			c.broken(fmt.Sprintf("stale fetch: slot %d is fetched as of step %d, its last update before is of step %d", slot, c.applied[slot], v))
		}
	}
}

// stored notes rows that come back. A flush, which has no versions, changes
// nothing that a fetch may see.
func (c *check) stored(t *transfer) {
	if c == nil {
		return
	}
	for i, v := range t.versionOf {
		if v != 0 {
			c.applied[t.slots[i]] = v
		}
	}
}
