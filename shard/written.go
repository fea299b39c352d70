package shard

import "slices"

// written is the rows of a shard that may differ from those of the last save: the rows that were written since
// it was pinned. A nil written lists none. A save takes the list, and gives it back if it fails.
type written struct {
	bits  []uint64 // one per slot
	taken []uint64 // by the save under way; nil: there is none
	spare []uint64 // memory to reuse
}

// ListWritten begins to list the rows that are written from now on, for PinWritten. Unless the last save has all rows
// as they are, all rows that may differ from their init are listed.
func (h *Shard) ListWritten(saved bool) {
	h.hold.written = &written{bits: slices.Clone(h.hold.differs)}
	if saved {
		clear(h.hold.written.bits)
	}
}

// EndSave ends the save that the last Pin or PinWritten began. Rows that it took are listed again if it failed.
func (h *Shard) EndSave(failed bool) {
	w := h.hold.written
	if w == nil || w.taken == nil {
		return
	}
	if failed {
		w.addAll(w.taken)
		w.taken = nil // its goroutine may still read it
		return
	}
	w.taken, w.spare = nil, w.taken
}

// take empties the list and returns the rows, which stay as they are until the save has ended.
func (w *written) take() []uint64 {
	if w == nil {
		return nil
	}
	if w.taken != nil {
		panic("shard: a save begins before the one before has ended")
	}
	w.taken = w.bits
	if w.bits = w.spare; w.bits == nil {
		w.bits = make([]uint64, len(w.taken))
	}
	w.spare = nil
	clear(w.bits)
	return w.taken
}

func (w *written) addOne(slot int32) {
	if w != nil {
		setBit(w.bits, slot)
	}
}

func (w *written) add(slots []int32) {
	if w == nil {
		return
	}
	for _, slot := range slots {
		setBit(w.bits, slot)
	}
}

func (w *written) addAll(rows []uint64) {
	if w == nil {
		return
	}
	for i, word := range rows {
		w.bits[i] |= word
	}
}
