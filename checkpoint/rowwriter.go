package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"path/filepath"

	"github.com/ecrec/ecrec/internal/directio"
	"github.com/ecrec/ecrec/internal/safetensors"
)

// RowSource provides a rank's rows: the touched ones, or those of an increment. A shard.Shard is one, and so is a
// shard.Pin.
type RowSource interface {
	// TouchedBits has bit s%64 of word s/64 set if the source has the row of slot s.
	TouchedBits() []uint64
	// ReadTouched copies the bytes of touched rows to dst, from a slot on, as many as fit.
	// It returns their number and the slot to continue from.
	ReadTouched(dst []byte, from int64) (rows int, next int64, err error)
}

// RowWriter writes the rows of a rank piece by piece. One goroutine at a time uses it. OpenRows
// and Close may wait for the disk for long; Copy waits for it only if IsReady does not hold.
type RowWriter struct {
	save     *Save
	src      RowSource
	file     *directio.Writer
	part     Part
	rowBytes int
	slot     int64 // to continue from
	left     int64 // rows
}

// OpenRows creates the file of a rank's rows, and writes the parts before the rows.
func (s *Save) OpenRows(rank int, src RowSource) (*RowWriter, error) {
	w, err := s.openRows(rank, src)
	return w, saveError(s.tmpPath(), err)
}

func (s *Save) openRows(rank int, src RowSource) (*RowWriter, error) {
	w := &RowWriter{save: s, src: src, part: Part{Rank: rank}, rowBytes: s.Model.rowBytes()}
	touched := src.TouchedBits()
	for _, word := range touched {
		w.part.Rows += int64(bits.OnesCount64(word))
	}
	w.left = w.part.Rows
	slots := s.Model.placeRows(s.Ranks).Slots(rank)
	specs := rowSpecs(slots, w.part.Rows, &s.Model, s.Parent != nil)
	begin, _, err := safetensors.Header(specs)
	if err != nil {
		return nil, err
	}
	w.part.Bytes = sizeOf(specs)
	if w.file, err = directio.Create(s.Env, filepath.Join(s.tmpPath(), rowsFile(rank)), w.part.Bytes, max(w.rowBytes, 8)); err != nil {
		return nil, err
	}
	if _, err = w.file.Write(begin); err == nil {
		if s.Parent != nil && listsSlots(slots, w.part.Rows) {
			err = writeSlots(w.file, touched)
		} else {
			err = writeWords(w.file, touched)
		}
	}
	if err != nil {
		w.file.Abort()
		return nil, err
	}
	return w, nil
}

func writeWords(w *directio.Writer, words []uint64) error {
	for len(words) > 0 {
		room := w.Room()
		n := min(len(room)/8, len(words))
		for i, word := range words[:n] {
			binary.LittleEndian.PutUint64(room[8*i:], word)
		}
		if err := w.Advance(8 * n); err != nil {
			return err
		}
		words = words[n:]
	}
	return nil
}

// writeSlots writes the numbers of the bits that are set.
func writeSlots(w *directio.Writer, words []uint64) error {
	list := make([]byte, 0, 64*4)
	for i, word := range words {
		for ; word != 0; word &= word - 1 {
			list = binary.LittleEndian.AppendUint32(list, uint32(64*i+bits.TrailingZeros64(word)))
		}
		if _, err := w.Write(list); err != nil {
			return err
		}
		list = list[:0]
	}
	return nil
}

// Left is how many bytes of rows have not been copied yet.
func (w *RowWriter) Left() int64 { return w.left * int64(w.rowBytes) }

// IsReady reports whether Copy will not wait for the disk.
func (w *RowWriter) IsReady() bool { return w.file.HasBuffer() }

// Copy copies some of the next rows from the source to the buffers of the file: about most bytes, at least
// a row, and no more than one buffer holds. It returns the number of bytes.
func (w *RowWriter) Copy(most int64) (bytes int64, err error) {
	if w.left == 0 {
		return 0, nil
	}
	room := w.file.Room()
	room = room[:min(int64(len(room)), max(most, int64(w.rowBytes)))]
	n, next, err := w.src.ReadTouched(room, w.slot)
	if err == nil && n == 0 {
		panic(fmt.Sprintf("checkpoint: the rows of rank %d end %d rows early", w.part.Rank, w.left))
	}
	if err == nil {
		bytes = int64(n * w.rowBytes)
		w.slot, w.left = next, w.left-int64(n)
		err = w.file.Advance(n * w.rowBytes)
	}
	return bytes, saveError(w.save.tmpPath(), err)
}

// Close makes the file durable. All rows have been copied.
func (w *RowWriter) Close() (Part, error) {
	var err error
	w.part.Sum, err = w.file.Close()
	return w.part, saveError(w.save.tmpPath(), err)
}

// Abort removes the file. After Close it does nothing.
func (w *RowWriter) Abort() { w.file.Abort() }
