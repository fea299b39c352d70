package modelfile

import (
	"fmt"
	"io"
	"slices"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/model"
)

// Load sets dense parameters and rows to those of a file. Every rank calls it, and reads
// the dense part and its rows, and verifies the checksum. Optimizer state does not change.
func (m *Model) Load(path string) error {
	var f *safetensors.File
	if err := m.Env.Do("open "+path, func() (err error) {
		f, err = safetensors.Open(path)
		return err
	}); err != nil {
		return config.Errorf("model.init_from: %w", err)
	}
	defer f.Close()
	if err := m.checkTensors(f, path); err != nil {
		return err
	}
	for _, t := range m.Params.Saved() {
		if err := m.loadDense(f, t); err != nil {
			return fmt.Errorf("%s: %s: %w", path, t.Name, err)
		}
	}
	for t := range m.Place.Tables() {
		if err := m.loadTable(f, t); err != nil {
			return fmt.Errorf("%s: %s: %w", path, m.Row[0].Tensor(t), err)
		}
	}
	if err := m.Env.Do("verify "+path, f.Verify); err != nil {
		return config.Errorf("model.init_from: %w", err)
	}
	return nil
}

// checkTensors compares the names, types and shapes of a file's tensors with the model's.
func (m *Model) checkTensors(f *safetensors.File, path string) error {
	specs := m.tensorSpecs()
	for _, want := range specs {
		got, ok := f.Tensor(want.Name)
		if !ok {
			return config.Errorf("%s: no tensor %s, which the model of this config has", path, want.Name)
		}
		if got.Type != safetensors.F32 {
			return config.Errorf("%s: %s is %s, a model's tensors are F32", path, want.Name, got.Type)
		}
		if !slices.Equal(got.Shape, want.Shape) {
			return config.Errorf("%s: %s is %v, the model of this config has %v", path, want.Name, got.Shape, want.Shape)
		}
	}
	if n := len(f.Tensors()); n != len(specs) {
		return config.Errorf("%s: %d tensors, the model of this config has %d", path, n, len(specs))
	}
	return nil
}

func (m *Model) loadDense(f *safetensors.File, t model.Tensor) error {
	src, _ := f.Tensor(t.Name)
	b := make([]byte, 4*t.Len())
	if err := m.Env.Do("read "+t.Name, func() error {
		_, err := io.ReadFull(f.Reader(src), b)
		return err
	}); err != nil {
		return err
	}
	m.Stream.Upload(t.Of(m.Params.Weights), b)
	return m.Stream.Sync()
}

// loadTable reads a table and keeps the rows that this rank owns.
func (m *Model) loadTable(f *safetensors.File, table int) error {
	width := m.rowWidth()
	rowBytes := int64(4 * width)
	chunk := make([]byte, m.chunkRows(table)*rowBytes)
	var own []byte
	var parts []io.Reader
	for _, part := range m.Row {
		src, _ := f.Tensor(part.Tensor(table)) // checkTensors has found it
		parts = append(parts, f.Reader(src))
	}
	var staged kernels.Buffer
	defer func() {
		if staged.Bytes() > 0 {
			m.Device.Free(staged)
		}
	}()
	return m.eachChunk(table, func(first, last int64) error {
		read := chunk[:(last-first)*rowBytes]
		if err := m.readRows(parts, table, read); err != nil {
			return err
		}
		if m.Owner < 0 {
			return nil
		}
		base := m.Place.Base[table]
		from, to := m.Place.FirstSlot(m.Owner, base+first), m.Place.FirstSlot(m.Owner, base+last)
		if from == to {
			return nil
		}
		own = own[:0]
		for slot := from; slot < to; slot++ {
			row := m.Place.Global(m.Owner, slot) - base - first
			own = append(own, read[row*rowBytes:(row+1)*rowBytes]...)
		}
		if err := kernels.Grow(m.Device, &staged, len(own), kernels.Working); err != nil {
			return err
		}
		m.Stream.Upload(staged.Slice(0, len(own)), own)
		if err := m.Shard.Store(from, kernels.Mat(staged, int(to-from), width)); err != nil {
			return err
		}
		return m.Stream.Sync()
	})
}

// readRows fills rows with the next rows of a table. It joins the parts of each row.
func (m *Model) readRows(parts []io.Reader, table int, rows []byte) error {
	rowBytes, at := 4*m.rowWidth(), 0
	n := len(rows) / rowBytes
	for i, part := range m.Row {
		partBytes := 4 * part.Width
		columns := rows
		if len(m.Row) > 1 {
			columns = make([]byte, n*partBytes)
		}
		if err := m.Env.Do("read "+part.Tensor(table), func() error {
			_, err := io.ReadFull(parts[i], columns)
			return err
		}); err != nil {
			return err
		}
		if len(m.Row) > 1 {
			for i := range n {
				copy(rows[i*rowBytes+at:][:partBytes], columns[i*partBytes:])
			}
		}
		at += partBytes
	}
	return nil
}
