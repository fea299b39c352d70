package shard

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
)

// RowBytes is the length of a row, weights and state.
func (h *Shard) RowBytes() int { return 4 * h.rows.Stride }

// TouchedBits has bit s%64 of word s/64 set if the row of slot s was ever written, and so may differ from its init. A row
// that was only read is not listed, so the bits do not depend on what was read ahead. It is the shard's own memory, valid until
// the next call.
func (h *Shard) TouchedBits() []uint64 { return h.hold.differs }

// ReadTouched copies the bytes of the rows of TouchedBits to dst, in the order of their slots and starting
// at from: as many rows as fit. It returns their number and the slot to continue at. No row means
// that none is left.
func (h *Shard) ReadTouched(dst []byte, from int64) (rows int, next int64, err error) {
	slots, at, err := h.readTouched(dst, int(from), h.hold.differs)
	return len(slots), int64(at), err
}

// inOrder reports whether all rows are in the host's memory in the order of their slots.
func inOrder(h *Shard) bool { return h.rows.Buf.OnHost() && h.frames == nil && h.packed == nil }

// readTouched is ReadTouched for the rows of touched, and lists the slots. If the rows are in order, it
// copies runs of them; a GPU gathers all rows first, since each copy from it costs microseconds.
func (h *Shard) readTouched(dst []byte, from int, touched []uint64) (slots []int32, next int, err error) {
	stride, direct := h.RowBytes(), inOrder(h)
	room := len(dst) / stride
	h.index = h.index[:0]
	for len(h.index) < room {
		first, n := nextRun(touched, from, room-len(h.index))
		if n == 0 {
			from = h.count
			break
		}
		if at := len(h.index) * stride; direct {
			h.s.Download(dst[at:at+n*stride], h.rows.RowRange(first, n).Buf)
		}
		for slot := first; slot < first+n; slot++ {
			h.index = append(h.index, int32(slot))
		}
		from = first + n
	}
	if !direct {
		return h.index, from, h.ReadBytes(dst[:len(h.index)*stride], h.index)
	}
	return h.index, from, h.s.Sync()
}

// ReadBytes copies the bytes of rows, weights and state, to dst, one after the other. All have
// been touched.
func (h *Shard) ReadBytes(dst []byte, slots []int32) error {
	if len(slots) == 0 {
		return nil
	}
	if h.frames != nil {
		return h.frames.copyOut(h.s, dst, slots)
	}
	// A GPU cannot address dst, also if its rows are in the host's memory.
	staged, to := h.rows.Buf.OnDevice(), kernels.HostBuffer(dst)
	if staged {
		if err := h.growStaged(len(slots)); err != nil {
			return err
		}
		to = h.staged.Slice(0, len(dst))
	}
	if err := h.uploadSlots(h.packed.placesOf(&h.where, slots)); err != nil {
		return err
	}
	h.s.GatherRows(kernels.Mat(to, len(slots), h.rows.Cols), h.rows, h.slots.SliceFloats(0, len(slots)))
	if err := h.s.Sync(); err != nil || !staged {
		return err
	}
	copy(dst, to.Host())
	return nil
}

// StoreRaw sets the bytes, weights and state, of the rows in slots, which ascend. rows holds them
// one after the other.
func (h *Shard) StoreRaw(slots []int32, rows []byte) error {
	stride := h.RowBytes()
	if len(rows) != len(slots)*stride {
		panic(fmt.Sprintf("shard: %d bytes for %d rows of %d", len(rows), len(slots), stride))
	}
	if len(slots) == 0 {
		return nil
	}
	for _, slot := range slots {
		h.touchWritten(slot)
	}
	if h.frames != nil {
		return h.frames.storeBytes(h.s, slots, rows)
	}
	eachRun(h.packed.placesOf(&h.where, slots), func(place, i, n int) {
		h.s.Upload(h.rows.RowRange(place, n).Buf, rows[i*stride:(i+n)*stride])
	})
	return h.s.Sync()
}

// Store sets the weights of the n rows from slot on to src (n, width) and
// zeroes their state.
func (h *Shard) Store(slot int64, src kernels.Matrix) error {
	slots := make([]int32, src.Rows)
	for i := range slots {
		slots[i] = int32(slot) + int32(i)
		h.touchWritten(slots[i])
	}
	if h.frames != nil {
		return h.storeBelow(slots, src)
	}
	eachRun(h.packed.placesOf(&h.where, slots), func(place, i, n int) { h.setWeights(h.rows.RowRange(place, n), src.RowRange(i, n)) })
	return nil
}

// setWeights sets the weights of rows to src, and their state to 0.
func (h *Shard) setWeights(dst, src kernels.Matrix) {
	h.s.Zero(dst.Buf)
	h.s.CopyColumns(dst.Columns(0, h.o.Width), src)
}

// storeBelow is Store for rows that are not all in memory.
func (h *Shard) storeBelow(slots []int32, src kernels.Matrix) error {
	rows := make([]float32, src.Rows*h.rows.Stride)
	h.setWeights(kernels.Mat(kernels.HostBuffer(rows), src.Rows, h.rows.Stride), src)
	return h.frames.storeBytes(h.s, slots, kernels.BytesOf(rows))
}

// Populate takes the memory of the n rows from a slot on, some of which will be stored next. If they are few and not packed, their pages
// are left to be taken one by one. Unlike all other methods, it may be called while another goroutine stores rows.
func (h *Shard) Populate(slot int64, n, some int) {
	first := int(slot)
	switch {
	case h.frames != nil:
		return
	case h.packed != nil:
		first, n = h.packed.nextPlaces(some)
	case 2*some <= n:
		return
	}
	if n > 0 {
		kernels.Populate(h.rows.RowRange(first, n).Buf)
	}
}

// OpenTier keeps rows in memory only as far as Options.Frames allows, and the others below, which Close closes. It is called before On, and
// before any access to rows. The device is a CPU.
func (h *Shard) OpenTier(e env.Env, below Below) {
	h.frames = &frames{below: below, rows: h.rows, slots: h.count, init: h.init}
	h.frames.ahead = newAhead(e, below, h.o.Ahead, h.RowBytes())
	h.frames.makeFresh()
}

// Frames is the most rows that are in memory, if others are below; else 0.
func (h *Shard) Frames() int {
	if h.frames == nil {
		return 0
	}
	return h.rows.Rows
}

// Expect declares the rows that the next steps use, by step. If some rows are below, those of these steps leave memory last, and are read
// in the background. It replaces the call before, and changes no row.
func (h *Shard) Expect(steps ...[]int32) {
	if h.frames != nil {
		h.frames.expect(steps)
	}
}

// EndReads drops the rows that are read in the background, and waits for the end of the reads.
func (h *Shard) EndReads() {
	if h.frames != nil {
		h.frames.ahead.stop()
	}
}

// Mark is the number of accesses to rows so far. They are only counted if some rows are below.
func (h *Shard) Mark() int64 {
	if h.frames == nil {
		return 0
	}
	return h.frames.mark
}

// Moved is how many rows were read from below so far, and how many were spilled.
func (h *Shard) Moved() (read, spilled int64) {
	if h.frames == nil {
		return 0, 0
	}
	read = h.frames.read.Load()
	if a := h.frames.ahead; a != nil {
		read += a.read.Load()
	}
	return read, h.frames.spilled.Load()
}

// Adopt declares that the place below has the rows of the shard, which are touched.
func (h *Shard) Adopt(slots []int32) {
	for _, slot := range slots {
		h.touchWritten(slot)
	}
	h.frames.policy.Stored(slots)
}

// Reset makes every row untouched, as after New. The writes of the active epoch are forgotten.
func (h *Shard) Reset() {
	h.hold.needNone()
	clear(h.touched)
	clear(h.hold.differs)
	h.packed.takeBack()
	if h.frames != nil {
		h.frames.makeFresh()
	}
	if h.journal != nil {
		h.journal.active.reset()
	}
}

// nextRun finds the first touched slot from at on, and how many touched slots follow each other
// there, at most limit. If there is none, n is 0.
func nextRun(touched []uint64, at, limit int) (first, n int) {
	for end := 64 * len(touched); at < end; {
		word := touched[at>>6] >> (at & 63)
		if word == 0 {
			at = (at>>6 + 1) << 6
			continue
		}
		first = at + bits.TrailingZeros64(word)
		for at = first; n < limit && at < end; {
			// All ones of a word at once, since long runs are common late in training.
			left := 64 - at&63
			ones := min(bits.TrailingZeros64(^(touched[at>>6] >> (at & 63))), left)
			n, at = n+ones, at+ones
			if ones < left {
				break
			}
		}
		return first, min(n, limit)
	}
	return 0, 0
}

// Memory returns the rows of a shard whose rows are in the memory of the host in the order of their slots, and a bit for each row that may differ from its init. Other
// goroutines may read them as long as no method of the shard is called that writes rows.
func Memory(h *Shard) (rows kernels.Matrix, touched []uint64) {
	if h.frames != nil || h.packed != nil {
		panic("shard: the rows are not in memory in the order of their slots")
	}
	return h.rows, h.hold.differs
}

// TouchAll draws every untouched row. Late in a long run all rows are touched.
func (h *Shard) TouchAll() error {
	const batch = 1 << 16
	slots := make([]int32, 0, batch)
	for first := 0; first < h.count; first += batch {
		slots = slots[:0]
		for slot := first; slot < min(first+batch, h.count); slot++ {
			slots = append(slots, int32(slot))
		}
		if err := h.drawUntouched(slots); err != nil {
			return err
		}
		if err := h.s.Sync(); err != nil { // else lists of slots pile up
			return err
		}
	}
	return nil
}

// CountAsWritten touches all rows of a shard, in random order as steps do, and counts them as written, as late in a long run: a save
// has all of them then. No row changes. It is for measurements.
func CountAsWritten(h *Shard) error {
	slots := make([]int32, h.count)
	for i := range slots {
		slots[i] = int32(i)
	}
	rand.New(rand.NewPCG(1, 0)).Shuffle(len(slots), func(i, k int) { slots[i], slots[k] = slots[k], slots[i] })
	for some := range slices.Chunk(slots, 1<<16) {
		if err := h.drawUntouched(some); err != nil {
			return err
		}
		if err := h.s.Sync(); err != nil { // else lists of slots pile up
			return err
		}
	}
	h.hold.addAll(h.touched)
	for _, slot := range slots {
		h.packed.mark(slot)
	}
	return nil
}
