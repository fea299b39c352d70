package shard

import (
	"fmt"
	"math/bits"
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
	use    kernels.Use // of pre-images, which lie where rows do
	stride int         // floats of a row
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
	wrote  []uint64 // a bit for each slot
	index  []int32  // place in Slots + 1 by slot, of the first listed of them: open addressing, 0 is free
	listed int
	sorted []uint64 // scratch of Sorted
}

// Before is the pre-images of the epoch's rows.
func (e *Epoch) Before() kernels.Matrix { return kernels.Mat(e.before, len(e.Slots), e.stride) }

// Sorted lists the epoch's rows by slot: slots, ascending, and the place of each in Slots.
// Both are appended to what is given.
func (e *Epoch) Sorted(slots, places []int32) ([]int32, []int32) {
	n := len(e.Slots)
	if cap(e.sorted) < 2*n {
		e.sorted = make([]uint64, 2*n, 3*n)
	}
	keys, other := e.sorted[:n], e.sorted[n:2*n]
	top := int32(0)
	for i, slot := range e.Slots {
		keys[i] = uint64(slot)<<32 | uint64(i)
		top = max(top, slot)
	}
	const digit = 11
	for shift := 32; shift < 32+bits.Len32(uint32(top)); shift += digit { // radix sort, the lowest digit first
		var next [1 << digit]int32
		for _, k := range keys {
			next[k>>shift&(1<<digit-1)]++
		}
		at := int32(0)
		for d, count := range next {
			next[d] = at
			at += count
		}
		for _, k := range keys {
			d := k >> shift & (1<<digit - 1)
			other[next[d]] = k
			next[d]++
		}
		keys, other = other, keys
	}
	for _, k := range keys {
		slots, places = append(slots, int32(k>>32)), append(places, int32(uint32(k)))
	}
	return slots, places
}

// find is where a slot stands in Slots.
func (e *Epoch) find(slot int32) (place int, ok bool) {
	if e.wrote[slot>>6]>>(slot&63)&1 == 0 {
		return 0, false
	}
	if 2*len(e.Slots) > len(e.index) {
		e.index, e.listed = make([]int32, 1<<bits.Len(uint(4*len(e.Slots)))), 0
	}
	for ; e.listed < len(e.Slots); e.listed++ {
		i := e.hash(e.Slots[e.listed])
		for e.index[i] != 0 {
			i = (i + 1) & (len(e.index) - 1)
		}
		e.index[i] = int32(e.listed) + 1
	}
	i := e.hash(slot)
	for e.Slots[e.index[i]-1] != slot {
		i = (i + 1) & (len(e.index) - 1)
	}
	return int(e.index[i] - 1), true
}

// hash is where in index the search for a slot begins (Knuth's multiplicative hash).
func (e *Epoch) hash(slot int32) int {
	return int(uint32(slot) * 2654435769 >> (33 - bits.Len(uint(len(e.index)))))
}

// Keep has the shard keep a journal from now on, timed by a clock. It comes before
// any On.
func (h *Shard) Keep(now func() time.Duration) {
	h.journal = &Journal{dev: h.dev, stride: h.rows.Stride, now: now}
	if h.journal.use = kernels.Working; h.rows.Buf.OnHost() {
		h.journal.use = kernels.Staging
	}
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
	if e.listed > 0 {
		clear(e.index)
	}
	e.Slots, e.listed = e.Slots[:0], 0
	j.idle = append(j.idle, e)
}

// Bytes is what the pre-images take, and have taken where epochs were longer.
func (j *Journal) Bytes() int64 { return j.bytes }

// Took is how long saving pre-images has taken in all.
func (j *Journal) Took() time.Duration { return j.took }

// Pause has writes leave no trace, or again one: between commits, and for
// measurements only, as nothing goes back behind what is written meanwhile.
func (j *Journal) Pause(paused bool) { j.paused = paused }

// Held is how many epochs there is memory for, and the most rows of one.
func (j *Journal) Held() (epochs, rows int) {
	all := append(append(slices.Clone(j.idle), j.sealed...), j.active)
	for _, e := range all {
		rows = max(rows, len(e.Slots))
	}
	return len(all), rows
}

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

// Delta sets dst row i to what the row of slots[i], at places[i] of e, was before e XOR
// what it is now: for a sealed epoch none of whose rows has been written since.
func (h *Shard) Delta(dst kernels.Matrix, e *Epoch, places, slots []int32) error {
	if len(slots) == 0 {
		return nil
	}
	if err := h.uploadSlots(slots); err != nil {
		return err
	}
	if err := kernels.Grow(h.dev, &h.places, 4*len(places), kernels.Working); err != nil {
		return fmt.Errorf("shard: list of %d pre-images on rank %d: %w", len(places), h.o.Owner, err)
	}
	from := h.places.SliceFloats(0, len(places))
	h.s.Upload(from, kernels.BytesOf(places))
	h.s.XorRows(dst, e.Before(), from, h.rows, h.slots.SliceFloats(0, len(slots)))
	return h.s.Sync()
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
	return h.put(e.Slots, e.Before())
}

// put sets rows, weights and state.
func (h *Shard) put(slots []int32, rows kernels.Matrix) error {
	if err := h.uploadSlots(slots); err != nil {
		return err
	}
	h.s.ScatterRows(h.rows, rows, h.slots.SliceFloats(0, len(slots)))
	return h.s.Sync()
}

// StoreLost sets rows (len(slots), width + state) that were missing: what was in their
// place was no row, so that no pre-image is kept.
func (h *Shard) StoreLost(slots []int32, rows kernels.Matrix) error {
	if len(slots) == 0 {
		return nil
	}
	for _, slot := range slots {
		h.touch(slot)
	}
	return h.put(slots, rows)
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
				h.s.Copy(dst.RowRange(i, 1).Buf, e.Before().RowRange(place, 1).Buf)
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
