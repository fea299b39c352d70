package lrpp

import "github.com/ecrec/ecrec/kernels"

// flush is one part of the rows that a cache writes back while they stay cached.
type flush struct {
	transfer
	sent, received []int32 // of each rank: number of rows in this part, and whether more follow
	mine           []int32 // owners' slots, in the order of cached
	sendBytes      []int
	recvBytes      []int
}

// flushRows is how many rows a trainer writes back at a time.
const flushRows = 1 << 15

// flushAll writes back the cached rows that were updated since they were fetched or last
// written back. Trainers send the owners the slots first, because the plans are ahead of
// training.
func (c *Cache) flushAll() error {
	for at, more := 0, true; more; {
		at = c.flush.collectDirty(c, at)
		var err error
		if more, err = c.flush.exchangeSlots(c, at < len(c.at)); err != nil {
			return err
		}
		if err := c.critical.writeBack(&c.flush.transfer); err != nil {
			return err
		}
	}
	return nil
}

// collectDirty lists the next rows that this trainer must write back, from a cache slot
// on. It returns the slot at which it stopped.
func (f *flush) collectDirty(c *Cache, at int) int {
	n := c.x.critical.Comm.Size()
	if f.sent == nil {
		f.sent, f.received = make([]int32, 2*n), make([]int32, 2*n)
		f.sendBytes, f.recvBytes = make([]int, n), make([]int, n)
	}
	f.resetLists(n)
	first, end := at, at
	for rows := 0; end < len(c.at) && rows < flushRows; end++ {
		if k := c.at[end]; k.mustWriteBack() {
			f.perOwner[c.first+k.owner()]++
			rows++
		}
	}
	next := make([]int, n)
	total := 0
	for r, k := range f.perOwner {
		next[r] = total
		total += k
	}
	f.cached, f.mine = resize(f.cached, total), resize(f.mine, total)
	for slot := first; slot < end; slot++ {
		if k := c.at[slot]; k.mustWriteBack() {
			c.at[slot] &^= changed
			r := c.first + k.owner()
			f.cached[next[r]], f.mine[next[r]] = int32(slot), k.slot()
			next[r]++
		}
	}
	return end
}

// exchangeSlots sends owners the slots of the rows, and reports whether any rank has
// more.
func (f *flush) exchangeSlots(c *Cache, mine bool) (more bool, err error) {
	comm := c.x.critical.Comm
	for r, n := range f.perOwner {
		f.sent[2*r], f.sent[2*r+1] = int32(n), 0
		if mine {
			f.sent[2*r+1] = 1
		}
	}
	if err := comm.AllToAll(kernels.HostBuffer(f.received), kernels.HostBuffer(f.sent)).Wait(); err != nil {
		return false, err
	}
	total := 0
	for r := range f.perRank {
		n := int(f.received[2*r])
		f.perRank[r] = n
		total += n
		more = more || f.received[2*r+1] != 0
		f.sendBytes[r], f.recvBytes[r] = 4*f.perOwner[r], 4*n
	}
	f.slots = resize(f.slots, total)
	return more, comm.AllToAllV(kernels.HostBuffer(f.slots), f.recvBytes, kernels.HostBuffer(f.mine), f.sendBytes).Wait()
}
