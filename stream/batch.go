package stream

import "encoding/binary"

// batchBytes is the memory of a batch: a batch has two of the largest frames.
const batchBytes = 2 * (headerBytes + MaxPayload)

// batch is frames that are appended to a partition together. Their memory is used again afterwards, while it is in the processor's cache.
type batch struct {
	partition interface{ Append(records [][]byte) error }
	list      [][]byte
	memory    []byte
	begun     int // where the last frame begins in memory
	err       error
}

// beginFrame begins a frame. The caller appends its payload, of at most some bytes, to memory, and calls endFrame.
func (b *batch) beginFrame(h header, bytes int) {
	if len(b.list) > 0 && len(b.memory)+headerBytes+bytes > batchBytes {
		b.flush()
	}
	b.begun = len(b.memory)
	b.memory = appendHeader(b.memory, h)
}

func (b *batch) endFrame() {
	frame := b.memory[b.begun:len(b.memory):len(b.memory)]
	sealFrame(frame)
	b.list = append(b.list, frame)
}

// flush appends the frames. After an error it drops them and all later ones, until end.
func (b *batch) flush() {
	if b.err == nil && len(b.list) > 0 {
		b.err = b.partition.Append(b.list)
	}
	b.list, b.memory = b.list[:0], b.memory[:0]
}

// end appends the frames that are left, and returns the first error since the last end.
func (b *batch) end() error {
	b.flush()
	err := b.err
	b.err = nil
	return err
}

// frames makes the frames of an epoch, or of a part of one.
type frames struct {
	h    header
	to   *batch
	rows uint64 // in all frames so far
}

// addFrame adds a frame.
func (f *frames) addFrame(k kind, payload []byte) {
	f.beginFrame(k, len(payload))
	f.to.memory = append(f.to.memory, payload...)
	f.to.endFrame()
}

func (f *frames) beginFrame(k kind, bytes int) {
	f.h.kind = k
	f.to.beginFrame(f.h, bytes)
	f.h.number++
}

// addRows adds frames of rows.
func (f *frames) addRows(slots []int32, rows []byte) {
	if len(slots) == 0 {
		return
	}
	rowBytes := len(rows) / len(slots)
	most := max(1, (MaxPayload-binary.MaxVarintLen32)/(rowBytes+binary.MaxVarintLen32))
	for len(slots) > 0 {
		n := min(len(slots), most)
		f.beginFrame(kindRows, n*(rowBytes+binary.MaxVarintLen32)+binary.MaxVarintLen32)
		f.to.memory = appendRows(f.to.memory, slots[:n], rows[:n*rowBytes])
		f.to.endFrame()
		f.rows += uint64(n)
		slots, rows = slots[n:], rows[n*rowBytes:]
	}
}

// addEnd adds the extra bytes, and the end.
func (f *frames) addEnd(extra []byte) {
	for len(extra) > 0 {
		n := min(len(extra), MaxPayload)
		f.addFrame(kindExtra, extra[:n])
		extra = extra[n:]
	}
	f.addFrame(kindEnd, binary.LittleEndian.AppendUint64(nil, f.rows))
}

// addAbout adds a description of the run.
func (f *frames) addAbout(text []byte) {
	f.h.absolute = false
	for len(text) > MaxPayload { // a recipe may have large vocabularies
		f.addFrame(kindAbout, text[:MaxPayload])
		text = text[MaxPayload:]
	}
	f.h.absolute = true // the last one
	f.addFrame(kindAbout, text)
}
