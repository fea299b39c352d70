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
	rows, index, err := locateWritten(h, e, places, slots)
	if err != nil {
		return err
	}
	if err := h.uploadPlaces(places); err != nil {
		return err
	}
	h.s.XorRows(dst, e.Before(), h.places.SliceFloats(0, len(places)), rows, index)
	return h.s.Sync()
}

// locateWritten is locateCopy for slots that are at places of an epoch, whose journal keeps rows.
func locateWritten(h *Shard, e *Epoch, places, slots []int32) (rows kernels.Matrix, index kernels.Buffer, err error) {
	if h.packed == nil {
		return h.locateCopy(slots)
	}
	h.where = slices.Grow(h.where[:0], len(places))
	for _, place := range places {
		h.where = append(h.where, e.where[place])
	}
	return locatePlaces(h, h.where)
}

// uploadPlaces sets places on the device.
func (h *Shard) uploadPlaces(places []int32) error {
	if err := kernels.Grow(h.dev, &h.places, 4*len(places), kernels.Working); err != nil {
		return fmt.Errorf("shard: list of %d pre-images on rank %d: %w", len(places), h.o.Owner, err)
	}
	h.s.Upload(h.places.SliceFloats(0, len(places)), kernels.BytesOf(places))
	return nil
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
		j.sums, err = h.appendHashes(j.sums[:0], slots, nil)
		return func(i int) bool { return j.sums[i] != e.hashes[places[i]] }, err
	}
	if err := h.growStaged(len(slots)); err != nil {
		return nil, err
	}
	deltas := h.staged.Slice(0, len(slots)*stride)
	err = h.Delta(kernels.Mat(deltas, len(slots), h.rows.Stride), e, places, slots)
	zeros := make([]byte, stride)
	return func(i int) bool { return !bytes.Equal(deltas.Host()[i*stride:(i+1)*stride], zeros) }, err
}

// DigestChange is the sum of the digest's terms of slots, which are at places of e, minus that of
// their terms before e. The epoch is as in Delta, but the journal may keep hashes. Unless rows is
// nil, it has room for the bytes of slots, and gets them.
func (h *Shard) DigestChange(e *Epoch, places, slots []int32, rows []byte) (sum digest.Sum, err error) {
	j, stride := h.journal, h.RowBytes()
	for len(slots) > 0 {
		n := min(len(slots), digestRows)
		if rows == nil {
			j.sums, err = h.appendHashes(j.sums[:0], slots[:n], nil)
		} else if err = h.ReadBytes(rows[:n*stride], slots[:n]); err == nil {
			j.sums, rows = appendTerms(h, j.sums[:0], slots[:n], nil, rows[:n*stride]), rows[n*stride:]
		}
		if err != nil {
			return sum, err
		}
		for _, after := range j.sums {
			sum.Add(after)
		}
		if j.sums, err = h.appendBefore(j.sums[:0], e, places[:n], slots[:n]); err != nil {
			return sum, err
		}
		for _, before := range j.sums {
			sum.Sub(before)
		}
		places, slots = places[n:], slots[n:]
	}
	return sum, nil
}

// appendBefore appends the hashes of rows as they were before an epoch.
func (h *Shard) appendBefore(sums []digest.Sum, e *Epoch, places, slots []int32) ([]digest.Sum, error) {
	j := h.journal
	if j.keep == KeepHashes {
		for _, place := range places {
			sums = append(sums, e.hashes[place])
		}
		return sums, nil
	}
	if err := h.uploadPlaces(places); err != nil {
		return sums, err
	}
	j.drawn = j.drawn[:0]
	for _, place := range places {
		j.drawn = append(j.drawn, e.drawn[place])
	}
	return h.hashRows(sums, slots, j.drawn, e.Before(), h.places.SliceFloats(0, len(places)))
}

// appendHashes appends the hashes of rows as they are now. All have been touched. drawn, if
// it is not nil, marks rows that equal their init: their hash is zero.
func (h *Shard) appendHashes(sums []digest.Sum, slots []int32, drawn []bool) (_ []digest.Sum, err error) {
	for len(slots) > 0 && err == nil {
		n := min(len(slots), digestRows)
		var rows kernels.Matrix
		var index kernels.Buffer
		if rows, index, err = h.locateCopy(slots[:n]); err == nil {
			sums, err = h.hashRows(sums, slots[:n], drawn, rows, index)
		}
		slots, drawn = slots[n:], drawn[min(n, len(drawn)):]
	}
	return sums, err
}

// hashRows appends the hashes of at most digestRows rows, which are at index of from, in the way
// of appendHashes.
func (h *Shard) hashRows(sums []digest.Sum, slots []int32, drawn []bool, from kernels.Matrix, index kernels.Buffer) ([]digest.Sum, error) {
	stride := h.RowBytes()
	if err := h.growStaged(len(slots)); err != nil {
		return sums, err
	}
	staged := h.staged.Slice(0, len(slots)*stride)
	h.s.GatherRows(kernels.Mat(staged, len(slots), h.rows.Cols), from, index)
	if err := h.s.Sync(); err != nil {
		return sums, err
	}
	return appendTerms(h, sums, slots, drawn, staged.Host()), nil
}

// appendTerms appends the hashes of rows by their bytes.
func appendTerms(h *Shard, sums []digest.Sum, slots []int32, drawn []bool, rows []byte) []digest.Sum {
	j := h.journal
	j.globals = j.globals[:0]
	for _, slot := range slots {
		j.globals = append(j.globals, h.o.Map.Global(h.o.Owner, int64(slot)))
	}
	return j.digester.AppendTerms(sums, j.globals, rows, drawn)
}

// growStaged makes room on the host for some rows.
func (h *Shard) growStaged(rows int) error {
	if err := kernels.Grow(h.dev, &h.staged, rows*h.RowBytes(), kernels.Staging); err != nil {
		return fmt.Errorf("shard: copy of %d rows of rank %d: %w", rows, h.o.Owner, err)
	}
	return nil
}

// Rollback undoes the active epoch and all sealed ones except the first keep, which stay
// sealed. With keep 0 every row is as of the last commit. The journal keeps rows.
func (h *Shard) Rollback(keep int) error {
	j := h.journal
	j.needRows()
	h.hold.needNone()
	undone := append(slices.Clone(j.sealed[keep:]), j.active)
	for i := len(undone) - 1; i >= 0; i-- {
		if err := h.undoEpoch(undone[i]); err != nil {
			return err
		}
	}
	for _, e := range undone {
		clear(e.wrote) // after an error it may have slots that are not listed
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
	h.hold.addSlots(e.Slots)
	for place, slot := range e.Slots {
		if e.drawn[place] { // it is its init again
			unsetBit(h.hold.differs, slot)
			h.packed.unmark(slot)
		}
	}
	if err := h.replaceRows(e.Slots, e.Before()); err != nil {
		return err
	}
	return h.s.Sync()
}

// StoreLost sets rows (len(slots), width + state) that were lost. Their memory held no
// rows, so that the journal does not record this write.
func (h *Shard) StoreLost(slots []int32, rows kernels.Matrix) error {
	if len(slots) == 0 {
		return nil
	}
	for _, slot := range slots {
		h.touchWritten(slot)
	}
	if err := h.replaceRows(slots, rows); err != nil {
		return err
	}
	return h.s.Sync()
}

// ReadCommitted copies rows as they were at the last commit to dst (len(slots), width +
// state). All have been touched, and the journal keeps rows.
func (h *Shard) ReadCommitted(dst kernels.Matrix, slots []int32) error {
	j := h.journal
	j.needRows()
	if len(slots) == 0 {
		return nil
	}
	rows, index, err := h.locateCopy(slots)
	if err != nil {
		return err
	}
	h.s.GatherRows(dst, rows, index)
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
