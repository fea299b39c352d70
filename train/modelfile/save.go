package modelfile

import (
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// NotWritten is the error of rank 0 if the file cannot be written. The other ranks get none.
type NotWritten struct{ cause error }

func (e *NotWritten) Error() string { return fmt.Sprintf("model: %v", e.cause) }
func (e *NotWritten) Unwrap() error { return e.cause }

// output is the file that rank 0 writes.
type output struct {
	file *safetensors.Writer // nil: it could not be created
	hash *xxh3.Hasher        // of the bytes of all tensors
	err  error               // the first error in writing; all later writes do nothing
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	if o.err == nil {
		_, _ = o.hash.Write(b) // never fails
		_, o.err = o.file.Write(b)
	}
	return len(b), nil
}

// Save writes the model to a file with metadata (Describe), which appears when it is complete. Every rank of comm calls it,
// and owner 0 is rank firstOwner. Rank 0 writes, and returns the XXH3 of the bytes of all
// tensors in the order of the file. If it cannot write, it receives the rows all the same, so
// that no rank waits for it, and returns a NotWritten.
func (m *Model) Save(path string, metadata map[string]string, comm *collectives.Comm, firstOwner int) (sum digest.Sum, err error) {
	var out *output
	root := comm.Rank() == 0
	if root {
		out = &output{hash: xxh3.New()}
		out.err = m.Env.Do("create "+path, func() (err error) {
			out.file, err = safetensors.Create(path, m.tensorSpecs(), metadata)
			return err
		})
		if out.err == nil {
			defer out.file.Abort()
		}
		if err := m.saveDense(out); err != nil {
			return sum, err
		}
	}
	column := 0
	for _, part := range m.Row {
		for t := range m.Place.Tables() {
			if err := m.saveTable(out, t, part, column, comm, firstOwner); err != nil {
				return sum, err
			}
		}
		column += part.Width
	}
	if !root {
		return sum, nil
	}
	if out.err == nil {
		out.err = m.Env.Do("commit "+path, out.file.Commit)
	}
	if out.err != nil {
		return sum, &NotWritten{out.err}
	}
	h := out.hash.Sum128()
	return digest.Sum{Hi: h.Hi, Lo: h.Lo}, nil
}

func (m *Model) saveDense(out *output) error {
	b := make([]byte, m.Params.Weights.Bytes())
	m.Stream.Download(b, m.Params.Weights)
	if err := m.Stream.Sync(); err != nil {
		return err
	}
	return m.Env.Do("write dense", func() error {
		_, err := out.Write(b)
		return err
	})
}

// saveTable gathers a table at rank 0, chunk by chunk. Rank 0, which alone has out, writes
// one part of its rows: the columns from column on.
func (m *Model) saveTable(out *output, table int, part model.Part, column int, comm *collectives.Comm, firstOwner int) error {
	rows, width := m.chunkRows(table), m.rowWidth()
	own := make([]float32, (rows/int64(m.Place.Owners)+1)*int64(width))
	var byOwner, byRow []float32
	if out != nil {
		byOwner, byRow = make([]float32, rows*int64(width)), make([]float32, rows*int64(width))
	}
	sendBytes, recvBytes := make([]int, comm.Size()), make([]int, comm.Size())
	return m.eachChunk(table, func(begin, end int64) error {
		first, last := m.Place.Base[table]+begin, m.Place.Base[table]+end
		count := 0
		if m.Owner >= 0 {
			slot := m.Place.FirstSlot(m.Owner, first)
			count = int(m.Place.FirstSlot(m.Owner, last) - slot)
			if err := m.Shard.Export(own, slot, count); err != nil {
				return err
			}
		}
		sendBytes[0] = 4 * count * width
		total := 0
		if out != nil {
			for owner := range m.Place.Owners {
				recvBytes[firstOwner+owner] = 4 * width * int(m.Place.FirstSlot(owner, last)-m.Place.FirstSlot(owner, first))
			}
			total = int(last-first) * width
		}
		if err := comm.AllToAllV(kernels.HostBuffer(byOwner[:total]), recvBytes,
			kernels.HostBuffer(own[:count*width]), sendBytes).Wait(); err != nil {
			return err
		}
		if out == nil {
			return nil
		}
		m.sortRows(byRow, byOwner, first, last)
		columns := cutColumns(byRow[:total], width, column, part.Width)
		return m.Env.Do("write "+part.Tensor(table), func() error {
			_, err := out.Write(kernels.BytesOf(columns))
			return err
		})
	})
}

// sortRows copies the global rows [first, last) from the order of their owners to their own.
func (m *Model) sortRows(byRow, byOwner []float32, first, last int64) {
	at, width := 0, m.rowWidth()
	for owner := range m.Place.Owners {
		for slot := m.Place.FirstSlot(owner, first); slot < m.Place.FirstSlot(owner, last); slot++ {
			row := int(m.Place.Global(owner, slot)-first) * width
			copy(byRow[row:row+width], byOwner[at:at+width])
			at += width
		}
	}
}

// cutColumns moves n columns of rows of some width, from column first on, to the front of
// their memory, row by row.
func cutColumns(rows []float32, width, first, n int) []float32 {
	if n == width {
		return rows
	}
	count := len(rows) / width
	for i := range count {
		copy(rows[i*n:(i+1)*n], rows[i*width+first:])
	}
	return rows[:count*n]
}
