package lrpp

import (
	"github.com/ecrec/ecrec/oracle"
)

// rowOp is the operation that an owner sends a trainer about one row around one step. It
// holds the row's slot and flags. If uses are checked, it also holds the number of steps
// since the row's last use. It is sent as a uint64.
type rowOp uint64

const (
	opFetchEarly    rowOp = 1 << (32 + iota) // fetched while the previous step computes
	opFetchCritical                          // fetched after the previous step
	opShared                                 // shared: every trainer has a copy
	opSyncLater                              // shared: the sum is applied while the next step computes
	opEvictNow                               // evicted after the step
	opEvictLater                             // evicted while the next step computes
	opUsed                                   // used by this trainer's slice
	opEvictForRoom                           // evicted before any fetch, to make room; the step does not use it
)

// The high bits hold the number of steps since the last use. Zero means that there was
// none or that it is not checked.
const (
	gapShift = 40
	maxGap   = 1<<(64-gapShift) - 1
)

func (w rowOp) slot() int32         { return int32(uint32(w)) }
func (w rowOp) has(what rowOp) bool { return w&what != 0 }

// lastUse returns the step that used the row before the given step. Zero means unknown.
func (w rowOp) lastUse(step int64) int64 {
	if gap := int64(w >> gapShift); gap != 0 {
		return step - gap
	}
	return 0
}

// opWriter turns an owner's decisions into row operations for each trainer: first the
// rows evicted to make room, then those of the step, ascending.
type opWriter struct {
	ops      []uint64 // those of trainer 0 first
	perRank  []int
	next     []int   // index of each trainer's next operation
	rows     []rowOp // of Decisions.Slots, without the trainers that use them
	lastUsed []int64 // of each slot: the last planned step that used it; nil if that is not checked
}

// writeOps sets ops to the operations of the given step.
func (t *opWriter) writeOps(d *oracle.Decisions, step int64, trainers int, delayedSync bool) {
	t.setFlags(d, step, delayedSync)
	clear(t.perRank)
	for _, h := range d.Holder {
		t.countOps(h, trainers)
	}
	for _, c := range d.EvictForRoom {
		t.countOps(c.Holder, trainers)
	}
	total := 0
	t.next = resize(t.next, trainers)
	for q := range trainers {
		t.next[q] = total
		total += t.perRank[q]
	}
	t.ops = resize(t.ops, total)
	for _, c := range d.EvictForRoom {
		w := rowOp(uint32(c.Slot)) | opEvictForRoom
		if t.lastUsed != nil {
			w |= gap(step, t.lastUsed[c.Slot])
		}
		t.addOp(w, c.Holder, trainers, nil)
	}
	for u, h := range d.Holder {
		t.addOp(t.rows[u], h, trainers, d.By[d.Start[u]:d.Start[u+1]])
	}
}

// setFlags computes the operation of each row of the step.
func (t *opWriter) setFlags(d *oracle.Decisions, step int64, delayedSync bool) {
	t.rows = resize(t.rows, len(d.Slots))
	for u, slot := range d.Slots {
		t.rows[u] = rowOp(uint32(slot))
		if t.lastUsed != nil {
			t.rows[u] |= gap(step, t.lastUsed[slot])
			t.lastUsed[slot] = step
		}
	}
	set := func(list []int32, flag rowOp) {
		for _, u := range list {
			t.rows[u] |= flag
		}
	}
	set(d.FetchEarly, opFetchEarly)
	set(d.FetchCritical, opFetchCritical)
	set(d.EvictNow, opEvictNow)
	if delayedSync {
		set(d.SyncLater, opSyncLater)
		set(d.EvictLater, opEvictLater)
	} else {
		set(d.EvictLater, opEvictNow)
	}
}

func gap(step, before int64) rowOp {
	if n := step - before; before != 0 && n <= maxGap {
		return rowOp(n) << gapShift
	}
	return 0
}

func (t *opWriter) countOps(holder int16, trainers int) {
	if holder != oracle.Shared {
		t.perRank[holder]++
		return
	}
	for q := range trainers {
		t.perRank[q]++
	}
}

// addOp adds a row's operation to the lists of its holders. by lists the trainers that
// use the row.
func (t *opWriter) addOp(w rowOp, holder int16, trainers int, by []uint16) {
	if holder != oracle.Shared {
		if len(by) > 0 {
			w |= opUsed
		}
		t.ops[t.next[holder]] = uint64(w)
		t.next[holder]++
		return
	}
	w |= opShared
	for q := range trainers {
		t.ops[t.next[q]] = uint64(w)
		t.next[q]++
	}
	for _, q := range by {
		t.ops[t.next[q]-1] |= uint64(opUsed)
	}
}
