package shard

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/kernels"
)

// Delta sets dst row i to the row of slots[i], which is at places[i] of e, as it was before
// e XOR as it is now. The epoch is sealed, none of its rows has been written since, and the
// journal keeps rows.
func (h *Shard) Delta(dst kernels.Matrix, e *Epoch, places, slots []int32) error {
	h.journal.needRows()
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

// Changed appends to changed those of slots, which are at places of e, whose bytes differ
// from those before e. The epoch is as in Delta. A row that was written and has the same
// bytes again has not changed, with pre-images and with hashes.
func (h *Shard) Changed(changed []int32, e *Epoch, places, slots []int32) ([]int32, error) {
	for len(slots) > 0 {
		n := min(len(slots), digestRows)
		differs, err := h.compareRows(e, places[:n], slots[:n])
		if err != nil {
			return changed, err
		}
		for i, slot := range slots[:n] {
			if differs(i) {
				changed = append(changed, slot)
			}
		}
		places, slots = places[n:], slots[n:]
	}
	return changed, nil
}

// compareRows compares at most digestRows rows with their pre-images in e.
func (h *Shard) compareRows(e *Epoch, places, slots []int32) (differs func(i int) bool, err error) {
	j, stride := h.journal, h.RowBytes()
	if j.keep == KeepHashes {
		j.sums, err = h.appendHashes(j.sums[:0], slots)
		return func(i int) bool { return j.sums[i] != e.hashes[places[i]] }, err
	}
	if err := kernels.Grow(h.dev, &h.staged, len(slots)*stride, kernels.Staging); err != nil {
		return nil, fmt.Errorf("shard: deltas of %d rows of rank %d: %w", len(slots), h.o.Owner, err)
	}
	deltas := h.staged.Slice(0, len(slots)*stride)
	err = h.Delta(kernels.Mat(deltas, len(slots), h.rows.Stride), e, places, slots)
	zeros := make([]byte, stride)
	return func(i int) bool { return !bytes.Equal(deltas.Host()[i*stride:(i+1)*stride], zeros) }, err
}

// appendHashes appends the hashes of rows as they are now. All have been touched.
func (h *Shard) appendHashes(sums []digest.Sum, slots []int32) ([]digest.Sum, error) {
	j, stride := h.journal, h.RowBytes()
	if j.rows == nil {
		j.rows = make([]byte, digestRows*stride)
	}
	for len(slots) > 0 {
		n := min(len(slots), digestRows)
		if err := h.ReadBytes(j.rows[:n*stride], slots[:n]); err != nil {
			return sums, err
		}
		for i, slot := range slots[:n] {
			sums = append(sums, j.digester.Term(h.o.Map.Global(h.o.Owner, int64(slot)), j.rows[i*stride:(i+1)*stride]))
		}
		slots = slots[n:]
	}
	return sums, nil
}

// Rollback undoes the active epoch and all sealed ones except the first keep, which stay
// sealed. With keep 0 every row is as of the last commit. The journal keeps rows.
func (h *Shard) Rollback(keep int) error {
	j := h.journal
	j.needRows()
	undone := append(slices.Clone(j.sealed[keep:]), j.active)
	for i := len(undone) - 1; i >= 0; i-- {
		if err := h.undoEpoch(undone[i]); err != nil {
			return err
		}
	}
	for _, e := range undone {
		j.retireEpoch(e)
	}
	j.sealed = j.sealed[:keep]
	j.active = j.newEpoch(len(h.touched))
	return nil
}

// undoEpoch writes an epoch's pre-images back.
func (h *Shard) undoEpoch(e *Epoch) error {
	if len(e.Slots) == 0 {
		return nil
	}
	return h.scatterRows(e.Slots, e.Before())
}

// scatterRows sets rows, weights and state. No pre-image is kept.
func (h *Shard) scatterRows(slots []int32, rows kernels.Matrix) error {
	if err := h.uploadSlots(slots); err != nil {
		return err
	}
	h.s.ScatterRows(h.rows, rows, h.slots.SliceFloats(0, len(slots)))
	return h.s.Sync()
}

// StoreLost sets rows (len(slots), width + state) that were lost. Their memory held no
// rows, so that the journal does not record this write.
func (h *Shard) StoreLost(slots []int32, rows kernels.Matrix) error {
	if len(slots) == 0 {
		return nil
	}
	for _, slot := range slots {
		h.touchSlot(slot)
	}
	return h.scatterRows(slots, rows)
}

// ReadCommitted copies rows as they were at the last commit to dst (len(slots), width +
// state). All have been touched, and the journal keeps rows.
func (h *Shard) ReadCommitted(dst kernels.Matrix, slots []int32) error {
	j := h.journal
	j.needRows()
	if len(slots) == 0 {
		return nil
	}
	if err := h.uploadSlots(slots); err != nil {
		return err
	}
	h.s.GatherRows(dst, h.rows, h.slots.SliceFloats(0, len(slots)))
	for i, slot := range slots {
		for k := 0; k <= len(j.sealed); k++ { // the oldest epoch that wrote it has the committed row
			e := j.active
			if k < len(j.sealed) {
				e = j.sealed[k]
			}
			if place, ok := e.findSlot(slot); ok {
				h.s.Copy(dst.RowRange(i, 1).Buf, e.Before().RowRange(place, 1).Buf)
				break
			}
		}
	}
	return h.s.Sync()
}
