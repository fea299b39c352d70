package shard

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
)

// Options say what a Shard holds.
type Options struct {
	Map   placement.Map
	Owner int // -1: owns nothing
	Seed  uint64
	// Width is the number of weights per row, State the floats of optimizer state.
	Width, State int
}

// Shard is the rows of one owner, worked on by one stream.
type Shard struct {
	o       Options
	dev     kernels.Device
	s       kernels.Stream
	init    kernels.RowInit
	rows    kernels.Matrix // (slots, width + state)
	touched []uint64       // one bit per slot
	view    bool           // made by On
	journal *Journal       // nil: nothing is kept

	fresh  []int32        // scratch: slots to draw
	index  []int32        // scratch: slots to read
	slots  kernels.Buffer // scratch: slots on the device
	places kernels.Buffer // scratch: places of pre-images on the device
	staged kernels.Buffer // scratch: rows on their way to the host
	draw   []float32      // scratch: one row's init
}

// MaxSlots is the most rows an owner can have: a slot is an int32.
const MaxSlots = math.MaxInt32

func (o Options) slots() int64 {
	if o.Owner < 0 {
		return 0
	}
	return o.Map.Slots(o.Owner)
}

// Bytes is what a shard of these options takes when every row is touched.
func Bytes(o Options) int64 {
	slots := o.slots()
	return slots*int64(o.Width+o.State)*4 + slots/8
}

// New reserves the rows of an owner; memory is taken as rows are touched.
func New(dev kernels.Device, s kernels.Stream, o Options) (*Shard, error) {
	slots := o.slots()
	if slots > MaxSlots {
		return nil, fmt.Errorf("shard: rank %d would own %d rows, at most %d fit: use more ranks", o.Owner, slots, MaxSlots)
	}
	stride := o.Width + o.State
	var buf kernels.Buffer
	if slots > 0 {
		var err error
		if buf, err = dev.Alloc(int(slots)*stride*4, kernels.Rows); err != nil {
			return nil, fmt.Errorf("shard: %d rows of %d bytes of owner %d: %w", slots, stride*4, o.Owner, err)
		}
	}
	return &Shard{
		o: o, dev: dev, s: s,
		init:    InitOf(o),
		rows:    kernels.Mat(buf, int(slots), stride),
		touched: make([]uint64, (slots+63)/64),
		draw:    make([]float32, o.Width),
	}, nil
}

// On is the same rows, worked on by another stream. The two are not used at the
// same time.
func (h *Shard) On(s kernels.Stream) *Shard {
	return &Shard{o: h.o, dev: h.dev, s: s, init: InitOf(h.o), rows: h.rows, touched: h.touched, view: true, journal: h.journal,
		draw: make([]float32, h.o.Width)}
}

// Close frees the rows, but those of another Shard.
func (h *Shard) Close() {
	if !h.view && h.rows.Rows > 0 {
		h.dev.Free(h.rows.Buf)
	}
	if !h.view && h.journal != nil {
		h.journal.free()
	}
	for _, b := range []kernels.Buffer{h.slots, h.places, h.staged} {
		if b.Bytes() > 0 {
			h.dev.Free(b)
		}
	}
}

// Width is the number of weights per row.
func (h *Shard) Width() int { return h.o.Width }

// Stream is what the shard is worked on by.
func (h *Shard) Stream() kernels.Stream { return h.s }

// Slots is the number of rows owned.
func (h *Shard) Slots() int64 { return int64(h.rows.Rows) }

// Read copies the weights of slots to dst (len(slots), width) for training:
// untouched rows are drawn and become touched, as an update will follow.
func (h *Shard) Read(dst kernels.Matrix, slots []int32) error {
	if err := h.materialize(slots); err != nil {
		return err
	}
	return h.gather(dst, slots)
}

// ReadWhole copies slots with their state to dst (len(slots), width + state) as
// Read does.
func (h *Shard) ReadWhole(dst kernels.Matrix, slots []int32) error {
	if err := h.materialize(slots); err != nil || len(slots) == 0 {
		return err
	}
	if err := h.uploadSlots(slots); err != nil {
		return err
	}
	h.s.GatherRows(dst, h.rows, h.slots.SliceFloats(0, len(slots)))
	return nil
}

// StoreWhole sets slots, none of them twice, to src (len(slots), width + state).
func (h *Shard) StoreWhole(slots []int32, src kernels.Matrix) error {
	if len(slots) == 0 {
		return nil
	}
	if err := h.keep(slots); err != nil {
		return err
	}
	if err := h.uploadSlots(slots); err != nil {
		return err
	}
	h.s.ScatterRows(h.rows, src, h.slots.SliceFloats(0, len(slots)))
	for _, slot := range slots {
		h.touch(slot)
	}
	return nil
}

// Peek copies the weights of slots to dst (len(slots), width) and touches none:
// untouched rows are drawn into dst only.
func (h *Shard) Peek(dst kernels.Matrix, slots []int32) error {
	h.index = append(h.index[:0], slots...)
	for i, slot := range slots {
		if !h.isTouched(slot) {
			h.index[i] = 0 // reads nothing new; overwritten below
		}
	}
	if err := h.gather(dst, h.index); err != nil {
		return err
	}
	for i, slot := range slots {
		if !h.isTouched(slot) {
			h.init.Row(h.draw, h.o.Map.Global(h.o.Owner, int64(slot)))
			h.s.Upload(dst.RowRange(i, 1).Buf, kernels.BytesOf(h.draw))
		}
	}
	return nil
}

// TouchAll draws every row that is untouched, as a long run has done in the end.
func (h *Shard) TouchAll() error {
	const batch = 1 << 16
	slots := make([]int32, 0, batch)
	for first := 0; first < h.rows.Rows; first += batch {
		slots = slots[:0]
		for slot := first; slot < min(first+batch, h.rows.Rows); slot++ {
			slots = append(slots, int32(slot))
		}
		if err := h.materialize(slots); err != nil {
			return err
		}
		if err := h.s.Sync(); err != nil { // or lists pile up on their way
			return err
		}
	}
	return nil
}

// Apply updates each of slots once: the gradient of row slots[u] is the sum of
// the rows pos[start[u]:start[u+1]] of grads, in that order. All slots were read
// before; start and pos are int32 device buffers as in kernels.UpdateRows.
func (h *Shard) Apply(opt kernels.Optimizer, slots []int32, grads kernels.Matrix, start, pos kernels.Buffer) error {
	if err := h.materialize(slots); err != nil {
		return err
	}
	if err := h.keep(slots); err != nil {
		return err
	}
	if err := h.uploadSlots(slots); err != nil {
		return err
	}
	h.s.UpdateRows(opt, h.rows, h.slots.SliceFloats(0, len(slots)), grads, start, pos)
	return nil
}

// Store sets the weights of the n rows from slot on to src (n, width) and
// zeroes their state.
func (h *Shard) Store(slot int64, src kernels.Matrix) {
	dst := h.rows.RowRange(int(slot), src.Rows)
	h.s.Zero(dst.Buf)
	h.s.CopyColumns(dst.Columns(0, h.o.Width), src)
	for i := range src.Rows {
		h.touch(int32(slot) + int32(i))
	}
}

// gather copies rows by slot, touched or not.
func (h *Shard) gather(dst kernels.Matrix, slots []int32) error {
	if len(slots) == 0 {
		return nil
	}
	if err := h.uploadSlots(slots); err != nil {
		return err
	}
	h.s.GatherRows(dst, h.rows.Columns(0, h.o.Width), h.slots.SliceFloats(0, len(slots)))
	return nil
}

// materialize draws the untouched ones of slots into memory.
func (h *Shard) materialize(slots []int32) error {
	h.fresh = h.fresh[:0]
	for _, slot := range slots {
		if !h.isTouched(slot) {
			h.fresh = append(h.fresh, slot)
			h.touch(slot)
		}
	}
	if len(h.fresh) == 0 {
		return nil
	}
	if err := h.uploadSlots(h.fresh); err != nil {
		return err
	}
	h.s.InitRows(h.rows, h.slots.SliceFloats(0, len(h.fresh)), h.init)
	return nil
}

func (h *Shard) uploadSlots(slots []int32) error {
	if err := kernels.Grow(h.dev, &h.slots, 4*len(slots), kernels.Working); err != nil {
		return fmt.Errorf("shard: list of %d rows on rank %d: %w", len(slots), h.o.Owner, err)
	}
	h.s.Upload(h.slots.SliceFloats(0, len(slots)), kernels.BytesOf(slots))
	return nil
}

func (h *Shard) isTouched(slot int32) bool {
	return h.touched[slot>>6]>>(slot&63)&1 != 0
}

func (h *Shard) touch(slot int32) { h.touched[slot>>6] |= 1 << (slot & 63) }

// Touched is how many rows have been written.
func (h *Shard) Touched() int64 {
	n := 0
	for _, w := range h.touched {
		n += bits.OnesCount64(w)
	}
	return int64(n)
}

// XorInit adds the inits of slots to rows, which hold them one after the other: rows of
// this shard become what is coded, and back.
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

// Init is how untouched rows are drawn.
func (h *Shard) Init() kernels.RowInit { return h.init }
