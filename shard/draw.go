package shard

import (
	"fmt"

	"github.com/ecrec/ecrec/kernels"
)

// drawUntouched draws the untouched ones of slots into memory, unless that waits until they get a frame.
func (h *Shard) drawUntouched(slots []int32) error {
	if err := growToDraw(h, len(slots)); err != nil {
		return err
	}
	h.fresh = h.fresh[:0]
	for _, slot := range slots {
		if !isSet(h.touched, slot) {
			h.fresh = append(h.fresh, slot)
			touch(h, slot) // a slot may be listed twice
		}
	}
	return drawFresh(h)
}

// drawFresh draws the slots in fresh, which were touched one after the other.
func drawFresh(h *Shard) error {
	if len(h.fresh) == 0 || h.frames != nil {
		return nil
	}
	if err := h.uploadSlots(h.fresh); err != nil {
		return err
	}
	slots := h.slots.SliceFloats(0, len(h.fresh))
	if h.packed == nil {
		h.s.InitRows(h.rows, slots, h.init)
		return nil
	}
	rows := h.rows.RowRange(h.packed.placeOf(h.fresh[0]), len(h.fresh)) // they have the last places
	h.s.Zero(rows.Buf)
	h.s.XorInit(rows, slots, h.init)
	return nil
}

// growToDraw makes room for a list of n slots on the device. It is called before bits are set, which an error would leave set.
func growToDraw(h *Shard, n int) error {
	if h.frames != nil {
		return nil
	}
	return growSlots(h, n)
}

func growSlots(h *Shard, n int) error {
	if err := kernels.Grow(h.dev, &h.slots, 4*n, kernels.Working); err != nil {
		return fmt.Errorf("shard: list of %d rows on rank %d: %w", n, h.o.Owner, err)
	}
	return nil
}
