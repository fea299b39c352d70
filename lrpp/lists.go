package lrpp

import (
	"github.com/ecrec/ecrec/kernels"
)

// deviceLists are the long lists of a Step in the memory of a device, where the planner's side
// copied them before the step began. A list that is empty is copied when it is used.
type deviceLists struct {
	index      listCopy
	now, later pushCopies
}

// pushCopies are copies of the lists of a Push: of its cells as requester, of its slots as owner.
type pushCopies struct{ ofCells, ofSlots segmentCopies }

// segmentCopies are copies of the lists of segments.
type segmentCopies struct{ start, pos listCopy }

func (c *pushCopies) cells() *segmentCopies {
	if c == nil {
		return nil
	}
	return &c.ofCells
}

func (c *pushCopies) slots() *segmentCopies {
	if c == nil {
		return nil
	}
	return &c.ofSlots
}

// listCopy is a copy of a list of n entries. Its memory is kept from step to step.
type listCopy struct {
	memory kernels.Buffer
	n      int
}

// entries returns the copy of a list, if there is one.
func (c *listCopy) entries(list []int32) (kernels.Buffer, bool) {
	if c.n == 0 || c.n != len(list) {
		return kernels.Buffer{}, false
	}
	return c.memory.SliceFloats(0, c.n), true
}

// makeRoom reports whether there is memory for a copy. A GPU whose memory is nearly used gets none: training needs the rest.
func (c *listCopy) makeRoom(dev kernels.Device, bytes int) bool {
	if _, free, ok := kernels.GPURoom(dev, 1); ok && c.memory.Bytes() < bytes && free < mostCopies*int64(bytes) {
		return false
	}
	return kernels.Grow(dev, &c.memory, bytes, kernels.Working) == nil
}

// mostCopies is how many such copies must fit a GPU before one is made. A pipeline prepares some steps, with some lists each.
const mostCopies = 32

// forgetAll marks the copies as old.
func (d *deviceLists) forgetAll() {
	for _, c := range d.all() {
		c.n = 0
	}
}

func (d *deviceLists) all() []*listCopy {
	return []*listCopy{&d.index, &d.now.ofCells.start, &d.now.ofCells.pos, &d.now.ofSlots.start, &d.now.ofSlots.pos,
		&d.later.ofCells.start, &d.later.ofCells.pos, &d.later.ofSlots.start, &d.later.ofSlots.pos}
}
