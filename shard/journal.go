package shard

import (
	"fmt"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/kernels"
)

// Keep is the part of a pre-image that a Journal keeps.
type Keep int

const (
	// KeepRows keeps all of it: the bytes of the row, weights and state. Epochs can be rolled
	// back, and deltas can be made.
	KeepRows Keep = iota
	// KeepHashes keeps a hash of 128 bits: the row's term of the digest. It is enough to find
	// the rows that an epoch changed, but nothing can be rolled back.
	KeepHashes
)

// Journal records the rows that each epoch writes, from the last commit on. It belongs to a
// shard, and to the goroutine that works on the shard.
//
// Invariant: epochs follow each other; the last one is active, the others are sealed. No
// slot is listed twice in an epoch.
type Journal struct {
	keep   Keep
	dev    kernels.Device
	use    kernels.Use // of pre-images, which are in the memory that rows are in
	stride int         // floats of a row
	active *Epoch
	sealed []*Epoch // oldest first
	idle   []*Epoch // empty; their memory is reused
	fresh  []int32  // scratch: slots that are written for the first time in the epoch
	bytes  int64    // memory of all epochs' rows or hashes
	paused bool
	now    func() time.Duration
	took   time.Duration

	digester *Digester    // of rows
	sums     []digest.Sum // scratch: hashes of rows
	globals  []int64      // scratch: the rows of hashRows
	drawn    []bool       // scratch: of these rows
}

// OpenJournal gives the shard a journal, which reads the time from now. It must be called
// before On.
func (h *Shard) OpenJournal(keep Keep, now func() time.Duration) {
	j := &Journal{keep: keep, dev: h.dev, use: kernels.Working, stride: h.rows.Stride, now: now, digester: NewDigester(h.o)}
	if h.rows.Buf.OnHost() {
		j.use = kernels.Staging
	}
	j.active = j.newEpoch(len(h.touched))
	h.journal = j
}

// Journal is the shard's journal, nil if it has none.
func (h *Shard) Journal() *Journal { return h.journal }

// newEpoch returns an empty epoch, whose bit set has the given number of words.
func (j *Journal) newEpoch(words int) *Epoch {
	if n := len(j.idle); n > 0 {
		e := j.idle[n-1]
		j.idle = j.idle[:n-1]
		return e
	}
	return &Epoch{stride: j.stride, wrote: make([]uint64, words)}
}

// retireEpoch makes an epoch's memory available to later ones.
func (j *Journal) retireEpoch(e *Epoch) {
	e.reset()
	j.idle = append(j.idle, e)
}

// Keeps is the Keep that the journal was opened with.
func (j *Journal) Keeps() Keep { return j.keep }

// Bytes is the memory of pre-images or hashes. It does not shrink.
func (j *Journal) Bytes() int64 { return j.bytes }

// Took is the total time spent on recording writes.
func (j *Journal) Took() time.Duration { return j.took }

// Pause stops the recording of writes, or resumes it. It is for measurements, between
// commits: writes meanwhile cannot be rolled back.
func (j *Journal) Pause(paused bool) { j.paused = paused }

// Held is the number of epochs that have memory, and the most rows of one.
func (j *Journal) Held() (epochs, rows int) {
	all := j.allEpochs()
	for _, e := range all {
		rows = max(rows, len(e.Slots))
	}
	return len(all), rows
}

// allEpochs lists all epochs that have memory.
func (j *Journal) allEpochs() []*Epoch {
	return append(slices.Concat(j.idle, j.sealed), j.active)
}

// Sealed is how many epochs are sealed and not committed.
func (j *Journal) Sealed() int { return len(j.sealed) }

// Written is how many rows the active epoch has written.
func (j *Journal) Written() int { return len(j.active.Slots) }

// Seal ends the active epoch and begins the next one.
func (j *Journal) Seal() *Epoch {
	e := j.active
	j.sealed = append(j.sealed, e)
	j.active = j.newEpoch(len(e.wrote))
	return e
}

// Commit drops the oldest sealed epoch, which will not be rolled back any more.
func (j *Journal) Commit() {
	j.retireEpoch(j.sealed[0])
	j.sealed = append(j.sealed[:0], j.sealed[1:]...)
}

// recordFirstWrites puts rows aside for the pin, and records the slots that the active epoch has not
// written yet. It is called before they are written. Without a journal, rows that were never touched are
// drawn only if draw is set.
func (h *Shard) recordFirstWrites(slots []int32, draw bool) error {
	if err := growToDraw(h, len(slots)); err != nil {
		return err
	}
	h.hold.pin.putAside(h, slots)
	h.hold.written.add(slots)
	j := h.journal
	if j == nil || j.paused {
		h.drawn = noteWrites(h, slots, h.drawn[:0])
		if draw {
			return drawFresh(h)
		}
		return nil
	}
	began := j.now()
	defer func() { j.took += j.now() - began }()
	e := j.active
	j.fresh = slices.Grow(j.fresh[:0], len(slots))[:len(slots)]
	fresh := 0
	for i, slot := range slots { // A branch would often be mispredicted, and wait for the cache miss of its word.
		if i%aheadSlots == 0 {
			kernels.PrefetchBits(e.wrote, nextSlots(slots, i))
		}
		j.fresh[fresh] = slot
		word, at := &e.wrote[slot>>6], slot&63
		fresh += int(^*word >> at & 1)
		*word |= 1 << at
	}
	j.fresh = j.fresh[:fresh]
	if len(j.fresh) == 0 {
		return nil
	}
	e.drawn = noteWrites(h, j.fresh, e.drawn)
	if err := drawFresh(h); err != nil { // an untouched row was its init
		return err
	}
	if j.keep == KeepHashes {
		return h.recordHashes(e)
	}
	return h.recordRows(e)
}

// noteWrites notes that rows may differ from their inits from now on. For each it appends to drawn whether the row equals
// its init so far. It lists the rows in h.fresh that were never touched.
func noteWrites(h *Shard, slots []int32, drawn []bool) []bool {
	h.fresh = h.fresh[:0]
	for i, slot := range slots {
		if h.packed != nil && i%aheadSlots == 0 {
			h.packed.prefetchPlaces(slots, i)
		}
		drawn = append(drawn, !h.packed.isMarked(slot) && noteWrite(h, slot))
	}
	return drawn
}

// noteWrite is noteWrites for a row without differsMark. It reports whether the row equals its init so far. A row that was never touched
// does, so touched is read for rows that equal their inits: each bit that is read is a cache miss.
func noteWrite(h *Shard, slot int32) (equals bool) {
	word, bit := &h.hold.differs[slot>>6], uint64(1)<<(slot&63)
	if equals = *word&bit == 0; equals {
		*word |= bit
		if !isSet(h.touched, slot) {
			h.fresh = append(h.fresh, slot)
			touch(h, slot)
		}
	}
	h.packed.mark(slot)
	return equals
}

// recordRows saves the pre-images of the slots in fresh.
func (h *Shard) recordRows(e *Epoch) error {
	j, n := h.journal, len(e.Slots)
	if err := j.extendRows(h.s, e, n+len(j.fresh)); err != nil {
		return err
	}
	rows, index, err := locateFresh(h, e)
	if err != nil {
		return err
	}
	e.Slots = append(e.Slots, j.fresh...)
	h.s.GatherRows(e.Before().RowRange(n, len(j.fresh)), rows, index)
	return nil
}

// locateFresh is locateCopy for the slots in fresh, which follow those of an epoch. If rows are packed, the epoch gets their places.
func locateFresh(h *Shard, e *Epoch) (rows kernels.Matrix, index kernels.Buffer, err error) {
	if h.packed == nil {
		return h.locateCopy(h.journal.fresh)
	}
	n := len(e.Slots)
	e.where = h.packed.appendPlaces(e.where[:n], h.journal.fresh)
	return locatePlaces(h, e.where[n:])
}

// recordHashes saves the hashes of the slots in fresh.
func (h *Shard) recordHashes(e *Epoch) (err error) {
	j, before := h.journal, cap(e.hashes)
	e.Slots = append(e.Slots, j.fresh...)
	e.hashes, err = h.appendHashes(e.hashes, j.fresh, e.drawn[len(e.drawn)-len(j.fresh):])
	j.bytes += int64(cap(e.hashes)-before) * digestBytes
	return err
}

// digestBytes is the memory of one hash.
const digestBytes = 16

// extendRows gives an epoch room for the pre-images of rows rows, and keeps those it has.
func (j *Journal) extendRows(s kernels.Stream, e *Epoch, rows int) error {
	bytes := 4 * j.stride * rows
	if e.before.Bytes() >= bytes {
		return nil
	}
	b, err := j.dev.Alloc(bytes+bytes/2, j.use)
	if err != nil {
		return fmt.Errorf("shard: pre-images of %d rows: %w", rows, err)
	}
	if have := 4 * j.stride * len(e.Slots); have > 0 {
		s.Copy(b.Slice(0, have), e.before.Slice(0, have))
		if err := s.Sync(); err != nil {
			j.dev.Free(b)
			return err
		}
	}
	j.bytes += int64(b.Bytes() - e.before.Bytes())
	if e.before.Bytes() > 0 {
		j.dev.Free(e.before)
	}
	e.before = b
	return nil
}

// needRows panics if the journal keeps no pre-images.
func (j *Journal) needRows() {
	if j.keep != KeepRows {
		panic("shard: a journal of hashes has no pre-images")
	}
}

func (j *Journal) freeEpochs() {
	for _, e := range j.allEpochs() {
		if e.before.Bytes() > 0 {
			j.dev.Free(e.before)
		}
	}
}
