package lrpp

import (
	"github.com/ecrec/ecrec/oracle"
)

// word is what an owner tells a trainer about one row around one step: its slot,
// what happens to it, and how many steps ago it was used before, where that is
// checked. It travels as a uint64.
type word uint64

const (
	fetchedEarly    word = 1 << (32 + iota) // comes while the step before computes
	fetchedCritical                         // comes after it
	ofAll                                   // shared: every trainer has a copy
	syncedLater                             // shared: its sum comes while the next step computes
	leavesNow                               // after the step
	leavesLater                             // while the next step computes
	wanted                                  // by this trainer's slice
	makesRoom                               // leaves before anything is fetched; the step does not use it
)

// The use before lies so many steps back; 0: there was none, or nobody checks.
const (
	gapShift = 40
	maxGap   = 1<<(64-gapShift) - 1
)

func (w word) slot() int32        { return int32(uint32(w)) }
func (w word) has(what word) bool { return w&what != 0 }

// before is the step that used the row before the given one; 0: not known.
func (w word) before(step int64) int64 {
	if gap := int64(w >> gapShift); gap != 0 {
		return step - gap
	}
	return 0
}

// teller turns an owner's decisions into words for each trainer: first the rows
// that make room, then those of the step, ascending.
type teller struct {
	words    []uint64 // trainer 0's first
	perRank  []int
	next     []int   // where each trainer's next word goes
	rows     []word  // of Decisions.Slots, less who wants them
	lastUsed []int64 // of each slot: the step planned last that used it; nil where that is not checked
}

// tell fills words for the step of this number.
func (t *teller) tell(d *oracle.Decisions, step int64, trainers int, delayedSync bool) {
	t.mark(d, step, delayedSync)
	clear(t.perRank)
	for _, h := range d.Holder {
		t.count(h, trainers)
	}
	for _, c := range d.Room {
		t.count(c.Holder, trainers)
	}
	total := 0
	t.next = resize(t.next, trainers)
	for q := range trainers {
		t.next[q] = total
		total += t.perRank[q]
	}
	t.words = resize(t.words, total)
	for _, c := range d.Room {
		w := word(uint32(c.Slot)) | makesRoom
		if t.lastUsed != nil {
			w |= gap(step, t.lastUsed[c.Slot])
		}
		t.add(w, c.Holder, trainers, nil)
	}
	for u, h := range d.Holder {
		t.add(t.rows[u], h, trainers, d.By[d.Start[u]:d.Start[u+1]])
	}
}

// mark says of each row of the step what happens to it.
func (t *teller) mark(d *oracle.Decisions, step int64, delayedSync bool) {
	t.rows = resize(t.rows, len(d.Slots))
	for u, slot := range d.Slots {
		t.rows[u] = word(uint32(slot))
		if t.lastUsed != nil {
			t.rows[u] |= gap(step, t.lastUsed[slot])
			t.lastUsed[slot] = step
		}
	}
	set := func(list []int32, flag word) {
		for _, u := range list {
			t.rows[u] |= flag
		}
	}
	set(d.FetchEarly, fetchedEarly)
	set(d.FetchCritical, fetchedCritical)
	set(d.EvictNow, leavesNow)
	if delayedSync {
		set(d.SyncLater, syncedLater)
		set(d.EvictLater, leavesLater)
	} else {
		set(d.EvictLater, leavesNow)
	}
}

func gap(step, before int64) word {
	if n := step - before; before != 0 && n <= maxGap {
		return word(n) << gapShift
	}
	return 0
}

func (t *teller) count(holder int16, trainers int) {
	if holder != oracle.Shared {
		t.perRank[holder]++
		return
	}
	for q := range trainers {
		t.perRank[q]++
	}
}

// add tells a row's holders of it; by lists who wants it.
func (t *teller) add(w word, holder int16, trainers int, by []uint16) {
	if holder != oracle.Shared {
		if len(by) > 0 {
			w |= wanted
		}
		t.words[t.next[holder]] = uint64(w)
		t.next[holder]++
		return
	}
	w |= ofAll
	for q := range trainers {
		t.words[t.next[q]] = uint64(w)
		t.next[q]++
	}
	for _, q := range by {
		t.words[t.next[q]-1] |= uint64(wanted)
	}
}
