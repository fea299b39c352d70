package lrpp

import "fmt"

// ownerCheck asserts the invariant of the package at the owner. A row is read for a step
// when every update of the previous steps is done, and it is updated in the order of
// steps. A nil ownerCheck checks nothing.
type ownerCheck struct {
	applied  []int64      // of each slot: the last step whose update is done
	violated func(string) // called with each violation; panics except in tests
}

func newOwnerCheck(slots int64) *ownerCheck {
	return &ownerCheck{applied: make([]int64, slots), violated: func(what string) { panic("lrpp: " + what) }}
}

func (c *ownerCheck) checkReads(f *Fetch) {
	if c == nil {
		return
	}
	for i, slot := range f.Slots {
		if before := f.before[i]; before != 0 && c.applied[slot] != before {
			c.violated(fmt.Sprintf("stale read: slot %d is read as of step %d, but step %d was the last to update it", slot,
				c.applied[slot], f.before[i]))
		}
	}
}

func (c *ownerCheck) recordUpdates(p *Push, step int64) {
	if c == nil {
		return
	}
	for i, slot := range p.Slots {
		if before := p.before[i]; before != 0 && c.applied[slot] != before {
			c.violated(fmt.Sprintf("slot %d is updated for step %d after step %d, not after step %d", slot, step, c.applied[slot], p.before[i]))
		}
		c.applied[slot] = step
	}
}
