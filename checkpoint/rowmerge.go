package checkpoint

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
)

// rowReader reads the rows of a rank in the order of their slots.
type rowReader interface {
	// nextRows returns some next rows and their slots, which are valid until the next call. After the last row it
	// returns io.EOF, if the sums of all files are right.
	nextRows() (slots []int32, rows []byte, err error)
	// touchedBits has a bit for each slot, set if there is a row.
	touchedBits() []uint64
	closeReader()
}

// openRows opens the rows of a rank: those of its file and, for an increment, of the files of the parents.
func (c *Checkpoint) openRows(rank int) (rowReader, error) {
	if len(c.parents) == 0 {
		return c.openFile(rank)
	}
	m := &rowMerge{}
	for _, x := range append(slices.Clip(c.parents), c) {
		s, err := x.openToMerge(rank)
		if err != nil {
			m.closeReader()
			return nil, err
		}
		m.files = append(m.files, &cursor{rowReader: s, rowBytes: c.Model.rowBytes()})
		if m.touched == nil {
			m.touched = slices.Clone(s.touched)
		}
		for i, word := range s.touched {
			m.touched[i] |= word
		}
	}
	return m, nil
}

// openToMerge opens a rank's row file, beside those of other increments.
func (c *Checkpoint) openToMerge(rank int) (*rowStream, error) {
	if !c.IsIncrement() {
		return c.openFile(rank)
	}
	r, err := openPieces(c.env, filepath.Join(c.Path, c.Files[rank].Name), max(c.Model.rowBytes(), 8))
	if err != nil {
		return nil, err
	}
	return c.streamRows(rank, r)
}

// cursor is a reader of rows with the remaining rows of its last block.
type cursor struct {
	rowReader
	rowBytes int
	ahead    []int32 // slots
	rows     []byte  // their rows
	ended    bool    // there are no others
}

// refill reads the next block if no row is left of the last one.
func (f *cursor) refill() (err error) {
	if len(f.ahead) > 0 || f.ended {
		return nil
	}
	if f.ahead, f.rows, err = f.nextRows(); errors.Is(err, io.EOF) {
		f.ended, err = true, nil
	}
	return err
}

// drop passes n rows of the block.
func (f *cursor) drop(n int) { f.ahead, f.rows = f.ahead[n:], f.rows[n*f.rowBytes:] }

// rowMerge merges the row files of a rank: the row of a slot is that of the last file that has one.
type rowMerge struct {
	files   []*cursor // the full checkpoint's, then those of increments in their order
	touched []uint64
	slots   []int32
	rows    []byte
}

// mergeRows is about how many rows are merged at a time.
const mergeRows = 1 << 12

func (m *rowMerge) touchedBits() []uint64 { return m.touched }

func (m *rowMerge) nextRows() ([]int32, []byte, error) {
	m.slots, m.rows = m.slots[:0], m.rows[:0]
	for len(m.slots) < mergeRows {
		if err := m.appendRun(); errors.Is(err, io.EOF) && len(m.slots) > 0 {
			break
		} else if err != nil {
			return nil, nil, err
		}
	}
	return m.slots, m.rows, nil
}

// appendRun appends the rows from the least slot on that one file has and the other files have not.
func (m *rowMerge) appendRun() error {
	var from *cursor // the last file with the least slot
	end := int64(1) << 32
	for _, f := range m.files {
		if err := f.refill(); err != nil {
			return err
		}
		if f.ended {
			continue
		}
		switch slot := int64(f.ahead[0]); {
		case from == nil || slot < int64(from.ahead[0]):
			if from != nil {
				end = min(end, int64(from.ahead[0]))
			}
			from = f
		case slot == int64(from.ahead[0]):
			from.drop(1) // f has a later version
			if err := from.refill(); err != nil {
				return err
			}
			if !from.ended {
				end = min(end, int64(from.ahead[0]))
			}
			from = f
		default:
			end = min(end, slot)
		}
	}
	if from == nil {
		return io.EOF
	}
	n, _ := slices.BinarySearchFunc(from.ahead, end, func(slot int32, end int64) int { return int(min(1, max(-1, int64(slot)-end))) })
	m.slots = append(m.slots, from.ahead[:n]...)
	m.rows = append(m.rows, from.rows[:n*from.rowBytes]...)
	from.drop(n)
	return nil
}

func (m *rowMerge) closeReader() {
	for _, f := range m.files {
		f.closeReader()
	}
}
