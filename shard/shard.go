package shard

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/ecrec/ecrec/kernels"
)

// Shard is the rows of one owner, used by one stream.
type Shard struct {
	o       Options
	dev     kernels.Device
	s       kernels.Stream
	init    kernels.RowInit
	rows    kernels.Matrix // (slots, width + state); or of each frame
	count   int            // slots
	touched []uint64       // one bit per slot
	view    bool           // made by On
	journal *Journal       // nil: writes are not recorded
	hold    *hold
	frames  *frames // nil: all rows are in memory
	packed  *packed // nil: the place of each row is its slot, if it has no frame

	fresh  []int32        // scratch: slots to draw
	drawn  []bool         // scratch: of slots that are written without a journal
	index  []int32        // scratch: slots to read
	where  []int32        // scratch: places of slots
	ahead  []int32        // scratch: slots to put aside
	slots  kernels.Buffer // scratch: slots on the device
	places kernels.Buffer // scratch: places of pre-images on the device
	staged kernels.Buffer // scratch: rows that are copied to the host
	zeros  kernels.Buffer // gradients and segments of applyZeros
	draw   []float32      // scratch: one row's init
}

// New reserves the rows of an owner; memory is taken as rows are touched.
func New(dev kernels.Device, s kernels.Stream, o Options) (*Shard, error) {
	slots := o.countSlots()
	if slots > MaxSlots {
		return nil, fmt.Errorf("shard: rank %d would own %d rows, at most %d fit: use more ranks", o.Owner, slots, MaxSlots)
	}
	stride := o.Width + o.State
	var buf kernels.Buffer
	frames := slots
	if o.Frames > 0 {
		frames = min(slots, int64(o.Frames))
	}
	if frames > 0 {
		var err error
		if buf, err = dev.Alloc(int(frames)*stride*4, kernels.Rows); err != nil {
			return nil, fmt.Errorf("shard: %d rows of %d bytes of owner %d: %w", frames, stride*4, o.Owner, err)
		}
	}
	var p *packed
	if o.Packed && o.Frames == 0 && frames > 0 && !buf.OnDevice() {
		p = newPacked(slots)
	}
	if p != nil || o.Frames > 0 { // places and frames are used from the first one on
		kernels.HugePages(buf.Host())
	}
	return &Shard{
		o: o, dev: dev, s: s,
		packed:  p,
		init:    InitOf(o),
		rows:    kernels.Mat(buf, int(frames), stride),
		count:   int(slots),
		touched: make([]uint64, (slots+63)/64),
		hold:    &hold{differs: make([]uint64, (slots+63)/64)},
		draw:    make([]float32, o.Width),
	}, nil
}

// On returns a Shard of the same rows with another stream. The two must not be used at the same
// time.
func (h *Shard) On(s kernels.Stream) *Shard {
	return &Shard{o: h.o, dev: h.dev, s: s, init: InitOf(h.o), rows: h.rows, count: h.count, touched: h.touched, view: true,
		journal: h.journal, hold: h.hold, frames: h.frames, packed: h.packed, draw: make([]float32, h.o.Width)}
}

// Close frees the rows, unless the Shard was made by On.
func (h *Shard) Close() {
	if !h.view && h.rows.Rows > 0 {
		h.dev.Free(h.rows.Buf)
	}
	if !h.view && h.journal != nil {
		h.journal.freeEpochs()
	}
	if !h.view && h.frames != nil {
		h.frames.ahead.stop()
		h.frames.below.Close()
	}
	for _, b := range []kernels.Buffer{h.slots, h.places, h.staged, h.zeros} {
		if b.Bytes() > 0 {
			h.dev.Free(b)
		}
	}
}

// Options returns the options that the shard was made with.
func (h *Shard) Options() Options { return h.o }

// Width is the number of weights per row.
func (h *Shard) Width() int { return h.o.Width }

// Stream is the stream that uses the rows.
func (h *Shard) Stream() kernels.Stream { return h.s }

// Slots is the number of rows owned.
func (h *Shard) Slots() int64 { return int64(h.count) }

// Read copies the weights of slots to dst (len(slots), width) for training. Untouched rows are
// drawn and become touched, since an update will follow.
func (h *Shard) Read(dst kernels.Matrix, slots []int32) error {
	if err := h.drawUntouched(slots); err != nil {
		return err
	}
	return h.gatherWeights(dst, slots)
}

// ReadRows copies slots, weights and state, to dst (len(slots), width + state). Like Read, it
// touches them.
func (h *Shard) ReadRows(dst kernels.Matrix, slots []int32) error {
	if err := h.drawUntouched(slots); err != nil {
		return err
	}
	return h.frames.eachPiece(len(slots), func(lo, hi int) error {
		rows, index, err := h.locate(slots[lo:hi], forRead)
		if err == nil {
			h.s.GatherRows(dst.RowRange(lo, hi-lo), rows, index)
		}
		return err
	})
}

// StoreRows sets slots, weights and state, to src (len(slots), width + state). No slot may be
// listed twice.
func (h *Shard) StoreRows(slots []int32, src kernels.Matrix) error {
	if len(slots) == 0 {
		return nil
	}
	if err := h.recordFirstWrites(slots, false); err != nil {
		return err
	}
	return h.replaceRows(slots, src)
}

// replaceRows sets rows to src (len(slots), width + state), without a record. No slot may be listed twice.
func (h *Shard) replaceRows(slots []int32, src kernels.Matrix) error {
	return h.frames.eachPiece(len(slots), func(lo, hi int) error {
		rows, index, err := h.locate(slots[lo:hi], forReplace)
		if err == nil {
			h.s.ScatterRows(rows, src.RowRange(lo, hi-lo), index)
		}
		return err
	})
}

// Peek copies the weights of slots to dst (len(slots), width) and touches none. Untouched rows
// are drawn into dst only.
func (h *Shard) Peek(dst kernels.Matrix, slots []int32) error {
	some := slices.IndexFunc(slots, func(slot int32) bool { return isSet(h.touched, slot) })
	if some >= 0 {
		h.index = append(h.index[:0], slots...)
		for i, slot := range slots {
			if !isSet(h.touched, slot) {
				h.index[i] = slots[some] // any touched row; overwritten below
			}
		}
		rows, index, err := h.locateCopy(h.index)
		if err != nil {
			return err
		}
		h.s.GatherRows(dst, rows.Columns(0, h.o.Width), index)
	}
	for i, slot := range slots {
		if !isSet(h.touched, slot) {
			h.init.Row(h.draw, h.o.Map.Global(h.o.Owner, int64(slot)))
			h.s.Upload(dst.RowRange(i, 1).Buf, kernels.BytesOf(h.draw))
		}
	}
	return nil
}

// Apply updates each of slots once. The gradient of row slots[u] is the sum of the rows
// pos[start[u]:start[u+1]] of grads, in that order. All slots were read before. start and pos are
// int32 device buffers as in kernels.UpdateRows. A rule for all rows also updates the other rows;
// slots must then ascend.
func (h *Shard) Apply(rule kernels.RowRule, slots []int32, grads kernels.Matrix, start, pos kernels.Buffer) error {
	if h.frames != nil {
		if err := h.drawUntouched(slots); err != nil { // before they are brought in
			return err
		}
	}
	err := h.frames.eachPiece(len(slots), func(lo, hi int) error {
		if err := h.frames.bringIn(h.s, slots[lo:hi]); err != nil { // else they are read twice
			return err
		}
		if err := h.recordFirstWrites(slots[lo:hi], true); err != nil {
			return err
		}
		rows, index, err := h.locate(slots[lo:hi], forUpdate)
		if err != nil {
			return err
		}
		start, pos := start, pos
		if hi-lo < len(slots) {
			start, pos = cutSegments(start, pos, lo, hi)
		}
		h.s.UpdateRows(rule, rows, index, grads, start, pos)
		return nil
	})
	if err != nil {
		return err
	}
	if rule.MovesAllRows() {
		return h.applyZeros(rule, slots)
	}
	return nil
}

// zeroRows is how many rows applyZeros updates at a time.
const zeroRows = 1 << 16

// applyZeros updates all rows except those of slots, which ascend, by a gradient of 0. Rows that
// no step has used stay as they are, because their state is 0, unless their weights decay.
func (h *Shard) applyZeros(rule kernels.RowRule, slots []int32) error {
	if h.journal != nil || h.frames != nil {
		panic("shard: a rule for all rows with a journal of writes, or with rows that are not in memory")
	}
	h.hold.needNone()
	if rule.MovesFreshRows() {
		if err := h.TouchAll(); err != nil {
			return err
		}
	}
	h.hold.addAll(h.touched)
	if n := 4 * max(zeroRows+1, h.o.Width); h.zeros.Bytes() < n {
		if err := kernels.Grow(h.dev, &h.zeros, n, kernels.Working); err != nil {
			return fmt.Errorf("shard: gradients of 0 of rank %d: %w", h.o.Owner, err)
		}
		h.s.Zero(h.zeros)
	}
	rest := make([]int32, 0, min(zeroRows, h.rows.Rows))
	for from := 0; from < h.rows.Rows; {
		rest = rest[:0]
		for len(rest) < zeroRows {
			first, n := nextRun(h.touched, from, zeroRows-len(rest))
			if n == 0 {
				from = h.rows.Rows
				break
			}
			from = first + n
			for slot := int32(first); slot < int32(from); slot++ {
				for len(slots) > 0 && slots[0] < slot {
					slots = slots[1:]
				}
				if len(slots) == 0 || slots[0] != slot {
					rest = append(rest, slot)
				}
			}
		}
		if len(rest) == 0 {
			continue
		}
		if err := h.uploadSlots(h.packed.placesOf(&h.where, rest)); err != nil {
			return err
		}
		h.s.UpdateRows(rule, h.rows, h.slots.SliceFloats(0, len(rest)), kernels.Mat(h.zeros, 1, h.o.Width),
			h.zeros.SliceFloats(0, len(rest)+1), h.zeros.SliceFloats(0, 0))
		if err := h.s.Sync(); err != nil { // else lists of slots pile up
			return err
		}
	}
	return nil
}

// gatherWeights copies the weights of rows, touched or not.
func (h *Shard) gatherWeights(dst kernels.Matrix, slots []int32) error {
	return h.frames.eachPiece(len(slots), func(lo, hi int) error {
		rows, index, err := h.locate(slots[lo:hi], forRead)
		if err == nil {
			h.s.GatherRows(dst.RowRange(lo, hi-lo), rows.Columns(0, h.o.Width), index)
		}
		return err
	})
}

// locate returns the memory of rows and the index of each there, on the device, until the next access.
func (h *Shard) locate(slots []int32, a access) (rows kernels.Matrix, index kernels.Buffer, err error) {
	if h.frames != nil {
		if slots, err = h.frames.fill(h.s, slots, a); err != nil {
			return rows, index, err
		}
	}
	return locatePlaces(h, h.packed.placesOf(&h.where, slots))
}

// locatePlaces is locate for rows whose places in memory are known.
func locatePlaces(h *Shard, places []int32) (rows kernels.Matrix, index kernels.Buffer, err error) {
	err = h.uploadSlots(places)
	return h.rows, h.slots.SliceFloats(0, len(places)), err
}

// locateCopy is locate for rows that are only read, and get no frame. All have been touched.
func (h *Shard) locateCopy(slots []int32) (rows kernels.Matrix, index kernels.Buffer, err error) {
	rows = h.rows
	if h.frames != nil {
		if rows, slots, err = h.frames.copyRows(h.s, slots); err != nil {
			return rows, index, err
		}
	}
	err = h.uploadSlots(h.packed.placesOf(&h.where, slots))
	return rows, h.slots.SliceFloats(0, len(slots)), err
}

func (h *Shard) uploadSlots(slots []int32) error {
	if err := growSlots(h, len(slots)); err != nil {
		return err
	}
	h.s.Upload(h.slots.SliceFloats(0, len(slots)), kernels.BytesOf(slots))
	return nil
}

func isSet(bits []uint64, slot int32) bool { return bits[slot>>6]>>(slot&63)&1 != 0 }

// touch notes that a row is touched, and gives it a place.
func touch(h *Shard, slot int32) {
	setBit(h.touched, slot)
	h.packed.givePlace(slot)
}

func setBit(bits []uint64, slot int32) { bits[slot>>6] |= 1 << (slot & 63) }

func unsetBit(bits []uint64, slot int32) { bits[slot>>6] &^= 1 << (slot & 63) }

// touchWritten touches a row that is set to any bytes without a record in the journal.
func (h *Shard) touchWritten(slot int32) {
	h.hold.needNone()
	h.hold.addOne(slot)
	touch(h, slot)
	h.packed.mark(slot)
}

// Touched is how many rows are touched.
func (h *Shard) Touched() int64 {
	n := 0
	for _, w := range h.touched {
		n += bits.OnesCount64(w)
	}
	return int64(n)
}

// XorInit XORs rows, which hold slots one after the other, with their inits. Rows become the
// form in which they are coded, and coded rows become rows again.
func (h *Shard) XorInit(rows kernels.Matrix, slots []int32) error {
	if len(slots) == 0 {
		return nil
	}
	if err := h.uploadSlots(slots); err != nil {
		return err
	}
	h.s.XorInit(rows, h.slots.SliceFloats(0, len(slots)), h.init)
	return h.s.Sync()
}

// Init is the init of the shard's rows.
func (h *Shard) Init() kernels.RowInit { return h.init }
