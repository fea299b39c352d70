package checkpoint

import (
	"errors"
	"fmt"
	"io"

	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// Specs are the tensors of the model, without optimizer state: the dense ones,
// then the tables.
func (c *Checkpoint) Specs() []safetensors.Spec {
	specs := c.Model.denseSpecs()[:len(c.Model.Tensors)]
	for _, t := range c.Model.Tables {
		specs = append(specs, safetensors.Spec{Name: t.Name, Shape: []int64{t.Rows, int64(c.Model.Width)}})
	}
	return specs
}

// WriteTensors writes the data of Specs, untouched rows drawn from the seed. What
// it wrote is good only if it returns no error: sums are known at the end.
func (c *Checkpoint) WriteTensors(to io.Writer) error {
	n := c.Model.denseBytes()
	weights, state := make([]byte, n), make([]byte, n*int64(c.Model.DenseState))
	if err := c.ReadDense(c.Model, weights, state); err != nil {
		return err
	}
	if _, err := to.Write(weights); err != nil {
		return err
	}
	return c.writeTables(to)
}

// writeRows is how many rows of a table are written at a time.
const writeRows = 1 << 14

// writeTables writes the weights of all rows in the order of their global
// numbers, which is that of tables and ids. All row files are read at once.
func (c *Checkpoint) writeTables(to io.Writer) error {
	m := merge{c: c, init: shard.InitOf(c.Model.rows(0, c.Ranks)), place: c.Model.place(c.Ranks)}
	defer m.close()
	for rank := range c.Ranks {
		r, err := c.openRows(rank)
		if err != nil {
			return err
		}
		m.files = append(m.files, cursor{rowStream: r})
	}
	width := c.Model.Width
	chunk := make([]float32, writeRows*width)
	for first := int64(0); first < m.place.Rows(); first += writeRows {
		rows := chunk[:min(writeRows, m.place.Rows()-first)*int64(width)]
		for i := range len(rows) / width {
			if err := m.row(rows[i*width:(i+1)*width], first+int64(i)); err != nil {
				return err
			}
		}
		if _, err := to.Write(kernels.BytesOf(rows)); err != nil {
			return err
		}
	}
	for i := range m.files {
		if slots, _, err := m.files[i].next(); !errors.Is(err, io.EOF) {
			if err == nil {
				panic(fmt.Sprintf("checkpoint: %s: %d rows left over", c.Path, len(slots)))
			}
			return err
		}
	}
	return nil
}

// merge finds rows in the order of their global numbers.
type merge struct {
	c     *Checkpoint
	init  kernels.RowInit
	place placement.Map
	files []cursor
}

// cursor is a row file and what is left of its last block of rows.
type cursor struct {
	*rowStream
	ahead []int32 // slots
	rows  []byte  // their rows
}

// row copies the weights of the global row g to dst; g ascends by one from call to
// call.
func (m *merge) row(dst []float32, g int64) error {
	f := &m.files[g%int64(m.c.Ranks)]
	slot := int32(g / int64(m.c.Ranks))
	if !f.isTouched(slot) {
		m.init.Row(dst, g)
		return nil
	}
	if len(f.ahead) == 0 {
		var err error
		if f.ahead, f.rows, err = f.next(); err != nil {
			return err
		}
	}
	copy(kernels.BytesOf(dst), f.rows)
	f.ahead, f.rows = f.ahead[1:], f.rows[f.rowBytes:]
	return nil
}

func (m *merge) close() {
	for _, f := range m.files {
		f.close()
	}
}
