package shard

import (
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/kernels"
)

// Pin is the touched rows of a shard, or some of them, as they were when it was pinned, for a copy that is made
// piece by piece while the rows are written. Before the first write of a row that the copy has not reached, the
// bytes of the row are put aside. A shard has at most one Pin.
//
// Invariant: a row of touched that ReadTouched has not returned has its bytes aside, or has not been
// written since it was pinned.
type Pin struct {
	h       *Shard           // the view that reads
	touched []uint64         // the rows that are pinned
	next    int              // rows before this slot have been returned
	places  [][]int32        // by page of slots: 1 + the place of a row that is aside, 0 if it is not; nil: none is
	aside   []kernels.Buffer // the rows, asideRows in each; on the host
	rows    int              // that are aside
	err     error            // there was no memory for a row
}

// hold is the pin of a shard and its written rows, which all its views share.
type hold struct {
	pin     *Pin
	written *written // nil: they are not listed
	differs []uint64 // a bit for each slot that was ever written: the row may differ from its init
}

// addOne notes that a row is written.
func (o *hold) addOne(slot int32) {
	o.written.addOne(slot)
	setBit(o.differs, slot)
}

// addSlots notes that rows are written.
func (o *hold) addSlots(slots []int32) {
	o.written.add(slots)
	for _, slot := range slots {
		setBit(o.differs, slot)
	}
}

// addAll notes that the rows of a set are written.
func (o *hold) addAll(rows []uint64) {
	o.written.addAll(rows)
	for i, word := range rows {
		o.differs[i] |= word
	}
}

const (
	// asideBytes is about how much memory is taken at a time for rows that are put aside.
	asideBytes = 2 << 20
	// pageSlots is how many slots have their places in one page.
	pageSlots = 4096
)

// Pin pins the rows that may differ from their init. Close ends it.
func (h *Shard) Pin() *Pin {
	p := newPin(h, slices.Clone(h.hold.differs))
	h.hold.written.take()
	return p
}

// PinWritten pins the rows of the written list (ListWritten), instead of all rows.
func (h *Shard) PinWritten() *Pin { return newPin(h, h.hold.written.take()) }

func newPin(h *Shard, touched []uint64) *Pin {
	h.hold.needNone()
	p := &Pin{h: h, touched: touched, places: make([][]int32, (h.count+pageSlots-1)/pageSlots)}
	h.hold.pin = p
	return p
}

// needNone panics if the rows are pinned. Writes that do not put rows aside call it.
func (o *hold) needNone() {
	if o.pin != nil {
		panic("shard: rows that are pinned cannot be set without a record")
	}
}

// Close frees the memory of the pin. The rows are no longer pinned.
func (p *Pin) Close() {
	for _, b := range p.aside {
		p.h.dev.Free(b)
	}
	p.aside, p.places = nil, nil
	p.h.hold.pin = nil
}

// Bytes is the memory of the rows that are aside.
func (p *Pin) Bytes() int64 { return int64(p.rows) * int64(p.h.RowBytes()) }

// TouchedBits has bit s%64 of word s/64 set if slot s is pinned.
func (p *Pin) TouchedBits() []uint64 { return p.touched }

// ReadTouched is that of Shard, with the rows as they were when they were pinned. Rows before next are
// no longer pinned, so no call may begin before the end of the one before.
func (p *Pin) ReadTouched(dst []byte, from int64) (rows int, next int64, err error) {
	if int(from) < p.next {
		panic(fmt.Sprintf("shard: slot %d of a pin is read, which has passed slot %d", from, p.next))
	}
	if p.err != nil {
		return 0, from, p.err
	}
	slots, at, err := p.h.readTouched(dst, int(from), p.touched)
	if err != nil {
		return 0, from, err
	}
	stride := p.h.RowBytes()
	for i, slot := range slots {
		if place := p.placeOf(slot); place >= 0 {
			b, first := p.asideAt(place)
			copy(dst[i*stride:(i+1)*stride], b.Host()[first*stride:])
		}
	}
	p.next = at
	return len(slots), int64(at), nil
}

// placeOf returns the place of a row that is aside, -1 if it is not.
func (p *Pin) placeOf(slot int32) int {
	page := p.places[slot/pageSlots]
	if page == nil {
		return -1
	}
	return int(page[slot%pageSlots]) - 1
}

// asideRows is how many rows are in each buffer of aside.
func (p *Pin) asideRows() int {
	return min(asideBytes/p.h.RowBytes(), p.h.count/8) + 1
}

// asideAt returns the buffer of a place, and the row there.
func (p *Pin) asideAt(place int) (b kernels.Buffer, row int) {
	n := p.asideRows()
	return p.aside[place/n], place % n
}

// putAside puts those of slots aside whose bytes the pin needs. A view calls it before it writes them. An
// error is one of the pin, and not of the write.
func (p *Pin) putAside(h *Shard, slots []int32) {
	if p == nil || p.err != nil {
		return
	}
	h.ahead = h.ahead[:0]
	for _, slot := range slots {
		if int(slot) >= p.next && isSet(p.touched, slot) && p.placeOf(slot) < 0 {
			page := &p.places[slot/pageSlots]
			if *page == nil {
				*page = make([]int32, pageSlots)
			}
			h.ahead = append(h.ahead, slot)
			(*page)[slot%pageSlots] = int32(p.rows + len(h.ahead))
		}
	}
	if len(h.ahead) > 0 {
		p.err = p.gatherAside(h)
	}
}

// gatherAside copies the slots in the scratch of a view to the next places.
func (p *Pin) gatherAside(h *Shard) error {
	rows, index, err := h.locateCopy(h.ahead)
	if err != nil {
		return err
	}
	stride, room := h.rows.Stride, p.asideRows()
	for done := 0; done < len(h.ahead); {
		at := p.rows % room
		if at == 0 {
			b, err := h.dev.Alloc(room*4*stride, kernels.Staging)
			if err != nil {
				return fmt.Errorf("shard: %d more rows of rank %d for a save: %w", room, h.o.Owner, err)
			}
			p.aside = append(p.aside, b)
		}
		n := min(room-at, len(h.ahead)-done)
		h.s.GatherRows(kernels.Mat(p.aside[len(p.aside)-1], room, stride).RowRange(at, n), rows, index.SliceFloats(done, n))
		done, p.rows = done+n, p.rows+n
	}
	return nil
}
