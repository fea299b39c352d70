package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"path/filepath"

	"github.com/ecrec/ecrec/internal/directio"
	"github.com/ecrec/ecrec/internal/safetensors"
)

// rowStream reads a row file from its beginning to its end.
type rowStream struct {
	c        *Checkpoint
	rank     int // that wrote it
	f        File
	r        blocks
	rowBytes int

	touched []uint64 // a bit for each slot that has a row in the file
	word    int      // of touched, being read
	left    uint64
	keep    []byte // the rest of the block before
	rows    int64  // returned so far
	slots   []int32
}

// blocks are the bytes of a file in pieces, as directio.Reader returns them.
type blocks interface {
	Next(keep []byte) ([]byte, error)
	Size() int64
	Sum() uint64
	Close() error
}

// openFile opens a rank's row file and reads which slots it has rows of.
func (c *Checkpoint) openFile(rank int) (*rowStream, error) {
	f := c.Files[rank]
	r, err := directio.Open(c.env, filepath.Join(c.Path, f.Name), max(c.Model.rowBytes(), 8))
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return c.streamRows(rank, r)
}

// streamRows reads a rank's row file from r. The stream closes r.
func (c *Checkpoint) streamRows(rank int, r blocks) (*rowStream, error) {
	s := &rowStream{c: c, rank: rank, f: c.Files[rank], r: r, rowBytes: c.Model.rowBytes()}
	if err := s.readTouched(); err != nil {
		s.closeReader()
		return nil, err
	}
	return s, nil
}

// readTouched reads everything before the first row.
func (s *rowStream) readTouched() error {
	slots := s.c.Model.placeRows(s.c.Ranks).Slots(s.rank)
	increment := s.c.Parent != nil
	want, _, err := safetensors.Header(rowSpecs(slots, s.f.Rows, &s.c.Model, increment))
	if err != nil {
		return err
	}
	b, err := s.readBlock(nil)
	if err != nil {
		return err
	}
	if len(b) < len(want) || string(b[:len(want)]) != string(want) {
		return s.corrupt(errHeader)
	}
	if s.keep = b[len(want):]; increment && listsSlots(slots, s.f.Rows) {
		err = s.readSlots(slots)
	} else {
		err = s.readBits(slots)
	}
	if err == nil && len(s.touched) > 0 {
		s.left = s.touched[0]
	}
	return err
}

// readSlots reads the list of slots of an increment.
func (s *rowStream) readSlots(slots int64) (err error) {
	s.touched = make([]uint64, (slots+63)/64)
	before := int64(-1)
	for left := s.f.Rows; left > 0; {
		if len(s.keep) < 4 {
			if s.keep, err = s.readBlock(s.keep); err != nil {
				return err
			}
			continue
		}
		slot := int64(int32(binary.LittleEndian.Uint32(s.keep)))
		if slot <= before || slot >= slots {
			return s.corrupt(fmt.Errorf("slot %d follows %d, of %d", slot, before, slots))
		}
		s.touched[slot>>6] |= 1 << (slot & 63)
		s.keep, before = s.keep[4:], slot
		left--
	}
	return nil
}

// readBits reads the bits of the touched slots.
func (s *rowStream) readBits(slots int64) (err error) {
	b := s.keep
	words := int((slots + 63) / 64)
	s.touched = make([]uint64, 0, words)
	for {
		n := min(len(b)/8, words-len(s.touched))
		for i := range n {
			s.touched = append(s.touched, binary.LittleEndian.Uint64(b[8*i:]))
		}
		b = b[8*n:]
		if len(s.touched) == words {
			break
		}
		if b, err = s.readBlock(b); err != nil {
			return err
		}
	}
	s.keep = b
	rows := int64(0)
	for _, w := range s.touched {
		rows += int64(bits.OnesCount64(w))
	}
	if rows != s.f.Rows || slots%64 != 0 && s.touched[words-1]>>(slots%64) != 0 {
		return s.corrupt(errors.New("its touched rows are not those of the manifest"))
	}
	return nil
}

func (s *rowStream) corrupt(err error) error { return &Corrupt{s.c.Path, s.f.Name, err} }

// readBlock returns the bytes kept from the block before, and the next block behind them.
func (s *rowStream) readBlock(keep []byte) ([]byte, error) {
	b, err := s.r.Next(keep)
	if errors.Is(err, io.EOF) {
		return nil, s.corrupt(io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return b, nil
}

// nextRows returns the next rows and their slots, which are valid until the next call. It
// returns io.EOF after the last row, if the sum of the file is right.
func (s *rowStream) nextRows() (slots []int32, rows []byte, err error) {
	if s.rows == s.f.Rows {
		if err := s.checkEnd(); err != nil {
			return nil, nil, err
		}
		return nil, nil, io.EOF
	}
	for len(s.keep) < s.rowBytes {
		if s.keep, err = s.readBlock(s.keep); err != nil {
			return nil, nil, err
		}
	}
	n := int(min(int64(len(s.keep)/s.rowBytes), s.f.Rows-s.rows))
	rows, s.keep = s.keep[:n*s.rowBytes], s.keep[n*s.rowBytes:]
	s.rows += int64(n)
	s.slots = s.slots[:0]
	for len(s.slots) < n {
		for s.left == 0 {
			s.word++
			s.left = s.touched[s.word]
		}
		s.slots = append(s.slots, int32(64*s.word+bits.TrailingZeros64(s.left)))
		s.left &= s.left - 1
	}
	return s.slots, rows, nil
}

// checkEnd checks that nothing follows the last row, and the sum.
func (s *rowStream) checkEnd() error {
	if len(s.keep) > 0 {
		return s.corrupt(errors.New("there is more after its last row"))
	}
	if _, err := s.r.Next(nil); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("there is more after its last row")
		}
		return s.corrupt(err)
	}
	return s.c.checkSum(s.f, s.r)
}

func (s *rowStream) closeReader() { _ = s.r.Close() } // nothing was written

func (s *rowStream) touchedBits() []uint64 { return s.touched }
