package shard

import (
	"fmt"
	"slices"
	"time"

	"github.com/ecrec/ecrec/kernels"
)

// Journal keeps what rows were at commits that can still be gone back to: for each
// epoch, the bytes (weights and state) that a row had before its first write in
// it. It belongs to a shard and to whoever works on that.
//
// Invariant: epochs follow each other; the last one is active, the others are
// sealed. No slot stands twice in an epoch.
type Journal struct {
	dev    kernels.Device
	stride int // floats of a row
	active *Epoch
	sealed []*Epoch // oldest first
	idle   []*Epoch
	fresh  []int32 // scratch
	bytes  int64   // of all epochs' rows
	paused bool
	now    func() time.Duration
	took   time.Duration
}

// Epoch is what an epoch wrote first.
type Epoch struct {
	// Slots are the rows that it wrote, in the order of their first writes. Before
	// holds their bytes before that, (len(Slots), width + state).
	Slots  []int32
	before kernels.Buffer
	stride int
	wrote  []uint64        // a bit for each slot
	at     map[int32]int32 // slot -> place in Slots, of the first indexed of them
	listed int
}

// Before is the pre-images of the epoch's rows.
func (e *Epoch) Before() kernels.Matrix { return kernels.Mat(e.before, len(e.Slots), e.stride) }

// find is where a slot stands in Slots.
func (e *Epoch) find(slot int32) (place int32, ok bool) {
	if e.wrote[slot>>6]>>(slot&63)&1 == 0 {
		return 0, false
	}
	if e.at == nil {
		e.at = map[int32]int32{}
	}
	for ; e.listed < len(e.Slots); e.listed++ {
		e.at[e.Slots[e.listed]] = int32(e.listed)
	}
	return e.at[slot], true
}

// Keep has the shard keep a journal from now on, timed by a clock. It comes before
// any On.
func (h *Shard) Keep(now func() time.Duration) {
	h.journal = &Journal{dev: h.dev, stride: h.rows.Stride, now: now}
	h.journal.active = h.journal.epoch(len(h.touched))
}

// Journal is the shard's, nil where it keeps none.
func (h *Shard) Journal() *Journal { return h.journal }

func (j *Journal) epoch(words int) *Epoch {
	if n := len(j.idle); n > 0 {
		e := j.idle[n-1]
		j.idle = j.idle[:n-1]
		return e
	}
	return &Epoch{stride: j.stride, wrote: make([]uint64, words)}
}

// retire makes an epoch empty.
func (j *Journal) retire(e *Epoch) {
	for _, slot := range e.Slots {
		e.wrote[slot>>6] = 0
	}
	e.Slots, e.listed = e.Slots[:0], 0
	clear(e.at)
	j.idle = append(j.idle, e)
}

// Bytes is what the pre-images take, and have taken where epochs were longer.
func (j *Journal) Bytes() int64 { return j.bytes }

// Took is how long saving pre-images has taken in all.
func (j *Journal) Took() time.Duration { return j.took }

// Pause has writes leave no trace, or again one: between commits, and for
// measurements only, as nothing goes back behind what is written meanwhile.
func (j *Journal) Pause(paused bool) { j.paused = paused }

// Sealed is how many epochs are sealed and not committed.
func (j *Journal) Sealed() int { return len(j.sealed) }

// Written is how many rows the active epoch has written.
func (j *Journal) Written() int { return len(j.active.Slots) }

// Seal ends the active epoch and begins the next one.
func (j *Journal) Seal() *Epoch {
	e := j.active
	j.sealed = append(j.sealed, e)
	j.active = j.epoch(len(e.wrote))
	return e
}

// Commit forgets the oldest sealed epoch: nothing goes back behind it any more.
func (j *Journal) Commit() {
	j.retire(j.sealed[0])
	j.sealed = append(j.sealed[:0], j.sealed[1:]...)
}

// keep saves what slots hold, before they are written.
func (h *Shard) keep(slots []int32) error {
	j := h.journal
	if j == nil || j.paused {
		return nil
	}
	began := j.now()
	defer func() { j.took += j.now() - began }()
	e := j.active
	j.fresh = j.fresh[:0]
	for _, slot := range slots {
		if word, bit := &e.wrote[slot>>6], uint64(1)<<(slot&63); *word&bit == 0 {
			*word |= bit
			j.fresh = append(j.fresh, slot)
		}
	}
	if len(j.fresh) == 0 {
		return nil
	}
	if err := h.materialize(j.fresh); err != nil { // an untouched row was its init
		return err
	}
	n := len(e.Slots)
	if err := j.extend(h.s, e, n+len(j.fresh)); err != nil {
		return err
	}
	if err := h.uploadSlots(j.fresh); err != nil {
		return err
	}
	e.Slots = append(e.Slots, j.fresh...)
	h.s.GatherRows(e.Before().RowRange(n, len(j.fresh)), h.rows, h.slots.SliceFloats(0, len(j.fresh)))
	return nil
}

// extend makes room for the pre-images of so many rows, those there are kept.
func (j *Journal) extend(s kernels.Stream, e *Epoch, rows int) error {
	bytes := 4 * j.stride * rows
	if e.before.Bytes() >= bytes {
		return nil
	}
	b, err := j.dev.Alloc(bytes+bytes/2, kernels.Working)
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

// Delta sets dst row i to what the row at place order[i] of e was before it XOR what
// it is now: for a sealed epoch none of whose rows has been written since. order is
// an int32 for each row of dst, slots the rows' slots, both on the device.
func (h *Shard) Delta(dst kernels.Matrix, e *Epoch, order, slots kernels.Buffer) {
	h.s.XorRows(dst, e.Before(), order, h.rows, slots)
}

// Rollback makes every row what it was at the last commit, but for the rows of the
// first keep sealed epochs, whose ends it goes back to: those stay sealed.
func (h *Shard) Rollback(keep int) error {
	j := h.journal
	undone := append(slices.Clone(j.sealed[keep:]), j.active)
	for i := len(undone) - 1; i >= 0; i-- {
		if err := h.restore(undone[i]); err != nil {
			return err
		}
	}
	for _, e := range undone {
		j.retire(e)
	}
	j.sealed = j.sealed[:keep]
	j.active = j.epoch(len(h.touched))
	return nil
}

// restore writes an epoch's pre-images back.
func (h *Shard) restore(e *Epoch) error {
	if len(e.Slots) == 0 {
		return nil
	}
	if err := h.uploadSlots(e.Slots); err != nil {
		return err
	}
	h.s.ScatterRows(h.rows, e.Before(), h.slots.SliceFloats(0, len(e.Slots)))
	return h.s.Sync()
}

// ReadCommitted copies to dst (len(slots), width + state) what rows were at the last
// commit. All have been touched.
func (h *Shard) ReadCommitted(dst kernels.Matrix, slots []int32) error {
	if len(slots) == 0 {
		return nil
	}
	if err := h.uploadSlots(slots); err != nil {
		return err
	}
	h.s.GatherRows(dst, h.rows, h.slots.SliceFloats(0, len(slots)))
	j := h.journal
	for i, slot := range slots {
		for k := 0; k <= len(j.sealed); k++ { // the oldest epoch that wrote it knows
			e := j.active
			if k < len(j.sealed) {
				e = j.sealed[k]
			}
			if place, ok := e.find(slot); ok {
				h.s.Copy(dst.RowRange(i, 1).Buf, e.Before().RowRange(int(place), 1).Buf)
				break
			}
		}
	}
	return h.s.Sync()
}

func (j *Journal) free() {
	for _, e := range append(append(j.idle, j.sealed...), j.active) {
		if e.before.Bytes() > 0 {
			j.dev.Free(e.before)
		}
	}
}
