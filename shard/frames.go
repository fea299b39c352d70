package shard

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/tier"
)

// Below is the place of rows that have no frame in memory.
type Below interface {
	// Read reads the newest bytes of rows to dst, one after the other. It appends to missing the indexes in slots of rows
	// that it does not have; they equal their inits.
	Read(slots []int32, dst []byte, missing []int32) ([]int32, error)
	// Sort puts slots in the order in which some at a time are read fastest.
	Sort(slots []int32)
	// ReadLater prepares to read rows beside other calls. The rows are read as they are now.
	ReadLater(slots []int32) Reading
	// Spill keeps rows. Slots ascend. The log has them once Logged returns mark or more.
	Spill(slots []int32, rows []byte, mark int64) error
	// Logged returns the greatest mark for which the log has all bytes that were written up to this mark (Shard.Mark).
	Logged() int64
	// Reset removes all spilled rows.
	Reset()
	// Close ends the use of the place. Spilled rows are gone.
	Close()
}

// frames is the memory of rows, on the host, of which not all are there at a time. Package tier decides which are. Each access to rows
// is a step of its policy: rows that the log has leave before the others, and among them the least recently used one.
type frames struct {
	below  Below
	ahead  *ahead         // nil: no row is read ahead
	rows   kernels.Matrix // (frames, width + state)
	slots  int
	init   kernels.RowInit
	policy *tier.Policy
	mark   int64 // the number of the last access
	logged int64 // the mark that the policy has
	broken error // a row could not be moved: frames may have wrong bytes

	read, spilled atomic.Int64 // rows that were read from below, and spilled

	moves   tier.Moves
	list    []int32   // scratch: slots, frames or indexes
	absent  []int32   // scratch: slots without a frame
	missing []int32   // scratch
	counted []int32   // 0, 1, 2, ...
	rest    []int32   // scratch: indexes of rows that are not read ahead
	moved   []float32 // scratch: rows on their way to frames or from them
	part    []float32 // scratch: some of them
	copied  []float32 // scratch: rows that are read without a frame
}

const (
	// pieceRows is the most rows of an access, and pieceShare the share of the frames that it may take. One to more rows takes place in
	// pieces. So a long list takes the frames of its own rows before those of rows that are kept.
	pieceRows, pieceShare = 1 << 14, 4
	// frameBytes and slotBytes are the memory of package tier for each frame and each slot.
	frameBytes, slotBytes = 20, 4
)

// access is the kind of an access to rows.
type access int

const (
	forRead    access = iota
	forUpdate         // they are read and written
	forReplace        // they are written, and were not read
)

// makeFresh makes all frames empty, and all rows fresh.
func (f *frames) makeFresh() {
	f.ahead.stop()
	f.below.Reset()
	p, err := tier.New(tier.Options{Slots: f.slots, Frames: f.rows.Rows, Window: 1, Step: f.mark})
	if err != nil {
		panic(err) // no row is pinned
	}
	f.policy, f.logged, f.broken = p, f.mark, nil
}

// eachPiece calls do with the bounds of pieces of n rows, each of which fits into the frames. Nil frames hold all rows.
func (f *frames) eachPiece(n int, do func(lo, hi int) error) error {
	most := n
	if f != nil {
		most = max(1, min(f.rows.Rows/pieceShare, pieceRows))
	}
	for lo := 0; lo < n; lo += most {
		if err := do(lo, min(lo+most, n)); err != nil {
			return err
		}
	}
	return nil
}

// fill gives rows frames, which hold their bytes unless they are replaced, and returns the frame of each. Others leave for them. They keep
// their frames at least until the next access.
func (f *frames) fill(s kernels.Stream, slots []int32, a access) ([]int32, error) {
	if f.broken != nil {
		return nil, f.broken
	}
	if mark := f.below.Logged(); mark > f.logged {
		f.policy.Logged(mark)
		f.logged = mark
	}
	f.mark++
	if cap(f.list) < len(slots) {
		f.list = make([]int32, len(slots))
	}
	f.list = f.list[:len(slots)]
	if err := f.policy.Access(f.mark, slots, f.list, a != forRead, &f.moves); err != nil {
		return nil, err
	}
	f.broken = f.moveRows(s, a)
	return f.list, f.broken
}

// rowOf is the bytes of a frame.
func (f *frames) rowOf(frame int32) []byte {
	stride := 4 * f.rows.Stride
	return f.rows.Buf.Host()[int(frame)*stride : (int(frame)+1)*stride]
}

// moveRows moves rows as the policy has decided: dirty victims below, and rows from there, or their inits, to their frames.
func (f *frames) moveRows(s kernels.Stream, a access) error {
	m := &f.moves
	if len(m.Spill) > 0 {
		slices.SortFunc(m.Spill, func(a, b tier.Row) int { return int(a.Slot) - int(b.Slot) })
		rows := f.growMoved(len(m.Spill))
		f.absent = f.absent[:0]
		for i, r := range m.Spill {
			copy(rows[i*4*f.rows.Stride:], f.rowOf(r.Frame))
			f.absent = append(f.absent, r.Slot)
		}
		if err := f.below.Spill(f.absent, rows, f.mark); err != nil {
			return err
		}
		f.spilled.Add(int64(len(m.Spill)))
	}
	defer func() {
		for _, list := range [][]tier.Row{m.Read, m.Draw} {
			for _, r := range list {
				f.ahead.forget(r.Slot)
			}
		}
	}()
	if a == forReplace {
		return nil
	}
	for i, list := range [][]tier.Row{m.Read, m.Draw} {
		f.absent = f.absent[:0]
		for _, r := range list {
			f.absent = append(f.absent, r.Slot)
		}
		rows, err := f.bytesOf(s, f.absent, i == 0)
		if err != nil {
			return err
		}
		for i, r := range list {
			copy(f.rowOf(r.Frame), rows[i*4*f.rows.Stride:])
		}
	}
	return nil
}

// growMoved returns the scratch for some rows.
func (f *frames) growMoved(n int) []byte {
	return growFloats(&f.moved, n*f.rows.Stride)
}

// growFloats returns n floats of a scratch, as bytes.
func growFloats(scratch *[]float32, n int) []byte {
	if len(*scratch) < n {
		*scratch = make([]float32, n+n/2)
	}
	return kernels.BytesOf((*scratch)[:n])
}

// bytesOf returns the bytes of rows without a frame: the newest ones below, if they were written, or their inits. They are valid until
// the next call.
func (f *frames) bytesOf(s kernels.Stream, slots []int32, written bool) ([]byte, error) {
	rows := f.growMoved(len(slots))
	if len(slots) == 0 {
		return rows, nil
	}
	if !written {
		return rows, f.drawRows(s, slots, rows)
	}
	stride := 4 * f.rows.Stride
	f.rest = f.rest[:0]
	for i, slot := range slots {
		if !f.ahead.has(slot) {
			f.rest = append(f.rest, int32(i))
		}
	}
	if err := f.readSome(s, slots, f.rest, rows); err != nil || len(f.rest) == len(slots) {
		return rows, err
	}
	f.rest = f.rest[:0]
	for i, slot := range slots {
		if f.ahead.has(slot) && !f.ahead.copyRow(slot, rows[i*stride:]) {
			f.rest = append(f.rest, int32(i))
		}
	}
	return rows, f.readSome(s, slots, f.rest, rows)
}

// readSome reads the rows at some indexes of slots from below, to their places in rows.
func (f *frames) readSome(s kernels.Stream, slots, some []int32, rows []byte) (err error) {
	if len(some) == 0 {
		return nil
	}
	stride := 4 * f.rows.Stride
	list, to := slots, rows
	if len(some) < len(slots) {
		list = make([]int32, len(some))
		for k, i := range some {
			list[k] = slots[i]
		}
		to = growFloats(&f.part, len(some)*f.rows.Stride)
	}
	if f.missing, err = f.below.Read(list, to, f.missing[:0]); err != nil {
		return err
	}
	f.read.Add(int64(len(list) - len(f.missing)))
	for _, k := range f.missing {
		if err := f.drawRows(s, list[k:k+1], to[int(k)*stride:int(k+1)*stride]); err != nil {
			return err
		}
	}
	if len(some) < len(slots) {
		for k, i := range some {
			copy(rows[int(i)*stride:], to[k*stride:(k+1)*stride])
		}
	}
	return nil
}

// bringIn gives frames to rows that lack one.
func (f *frames) bringIn(s kernels.Stream, slots []int32) error {
	if f == nil {
		return nil
	}
	for _, slot := range slots {
		if _, ok := f.policy.FrameOf(slot); !ok {
			_, err := f.fill(s, slots, forRead)
			return err
		}
	}
	return nil
}

// expect keeps the rows of steps, the next one first, and starts to read those of them that are below.
func (f *frames) expect(steps [][]int32) {
	if f.broken != nil || f.ahead == nil {
		return
	}
	f.policy.Unkeep()
	for _, slots := range slices.Backward(steps) {
		f.policy.Keep(slots)
	}
	f.ahead.beginRound()
	for _, slots := range steps {
		f.absent = f.absent[:0]
		for _, slot := range slots {
			if _, ok := f.policy.FrameOf(slot); !ok && !f.policy.IsFresh(slot) {
				f.absent = append(f.absent, slot)
			}
		}
		f.ahead.request(f.absent)
	}
}

// drawRows sets rows to their inits.
func (f *frames) drawRows(s kernels.Stream, slots []int32, rows []byte) error {
	clear(rows)
	s.XorInit(kernels.Mat(kernels.HostBuffer(rows), len(slots), f.rows.Stride), kernels.HostBuffer(slots), f.init)
	return s.Sync()
}

// copyOut copies rows from their frames or from below. None gets a frame.
func (f *frames) copyOut(s kernels.Stream, dst []byte, slots []int32) error {
	stride := 4 * f.rows.Stride
	for _, isFresh := range []bool{false, true} {
		f.list, f.absent = f.list[:0], f.absent[:0]
		for i, slot := range slots {
			if frame, ok := f.policy.FrameOf(slot); !ok && f.policy.IsFresh(slot) == isFresh {
				f.list, f.absent = append(f.list, int32(i)), append(f.absent, slot)
			} else if ok && !isFresh {
				copy(dst[i*stride:(i+1)*stride], f.rowOf(frame))
			}
		}
		rows, err := f.bytesOf(s, f.absent, !isFresh)
		if err != nil {
			return err
		}
		for i, at := range f.list {
			copy(dst[int(at)*stride:(int(at)+1)*stride], rows[i*stride:])
		}
	}
	return nil
}

// copyRows returns a copy of rows, and the index of each there.
func (f *frames) copyRows(s kernels.Stream, slots []int32) (rows kernels.Matrix, index []int32, err error) {
	if n := len(slots) * f.rows.Stride; len(f.copied) < n {
		f.copied = make([]float32, n+n/2)
	}
	for len(f.counted) < len(slots) {
		f.counted = append(f.counted, int32(len(f.counted)))
	}
	copied := f.copied[:len(slots)*f.rows.Stride]
	err = f.copyOut(s, kernels.BytesOf(copied), slots)
	return kernels.Mat(kernels.HostBuffer(copied), len(slots), f.rows.Stride), f.counted[:len(slots)], err
}

// storeBytes replaces rows by bytes on the host. Slots ascend.
func (f *frames) storeBytes(s kernels.Stream, slots []int32, rows []byte) error {
	stride := 4 * f.rows.Stride
	return f.eachPiece(len(slots), func(lo, hi int) error {
		list, err := f.fill(s, slots[lo:hi], forReplace)
		if err != nil {
			return err
		}
		for i, frame := range list {
			copy(f.rowOf(frame), rows[(lo+i)*stride:])
		}
		return nil
	})
}

// cutSegments returns start and pos of kernels.UpdateRows, on the host, for the rows from lo to hi-1 of a longer list.
func cutSegments(start, pos kernels.Buffer, lo, hi int) (someStart, somePos kernels.Buffer) {
	bounds := make([]int32, hi-lo+1)
	for i := range bounds {
		bounds[i] = int32(binary.LittleEndian.Uint32(start.Host()[4*(lo+i):]))
	}
	first := bounds[0]
	for i := range bounds {
		bounds[i] -= first
	}
	return kernels.HostBuffer(bounds), pos.SliceFloats(int(first), int(bounds[len(bounds)-1]))
}
