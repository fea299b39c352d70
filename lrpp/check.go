package lrpp

import "fmt"

// check asserts the invariant of the package at the owner: a row is read for a
// step when every update of the steps before it is done, and updated in the order
// of steps. A nil check checks nothing.
type check struct {
	applied []int64      // of each slot: the last step whose update is done
	broken  func(string) // hears of what breaks it; panics but in tests
}

func newCheck(slots int64) *check {
	return &check{applied: make([]int64, slots), broken: func(what string) { panic("lrpp: " + what) }}
}

func (c *check) read(f *Fetch) {
	if c == nil {
		return
	}
	for i, slot := range f.Slots {
		if before := f.before[i]; before != 0 && c.applied[slot] != before {
			c.broken(fmt.Sprintf("stale read: slot %d is read as of step %d, its last update before is of step %d", slot, c.applied[slot], f.before[i]))
		}
	}
}

func (c *check) apply(p *Push, step int64) {
	if c == nil {
		return
	}
	for i, slot := range p.Slots {
		if before := p.before[i]; before != 0 && c.applied[slot] != before {
			c.broken(fmt.Sprintf("slot %d is updated for step %d after step %d, not after step %d", slot, step, c.applied[slot], p.before[i]))
		}
		c.applied[slot] = step
	}
}
