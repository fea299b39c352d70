package checkpoint

import (
	"fmt"
	"io"

	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/internal/safetensors"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// Specs are the tensors of the model, without optimizer state: the dense ones,
// then, part by part, those of the tables.
func (c *Checkpoint) Specs() []safetensors.Spec {
	specs := c.Model.weightSpecs()
	for _, p := range c.Model.rowParts() {
		for t, table := range c.Model.Tables {
			specs = append(specs, safetensors.Spec{Name: p.Tensors[t], Shape: []int64{table.Rows, int64(p.Width)}})
		}
	}
	return specs
}

// WriteTensors writes the data of Specs. It draws untouched rows from the seed. The output
// is valid only if it returns no error, since sums are compared at the end.
func (c *Checkpoint) WriteTensors(to io.Writer) error {
	n := c.Model.denseBytes()
	weights, state := make([]byte, n), make([]byte, c.Model.stateBytes())
	if err := c.ReadDense(c.Model, weights, state); err != nil {
		return err
	}
	if _, err := to.Write(weights); err != nil {
		return err
	}
	first := 0
	for _, p := range c.Model.rowParts() {
		if err := c.writeTables(to, first, p.Width); err != nil {
			return err
		}
		first += p.Width
	}
	return nil
}

// writeRows is how many rows of a table are written at a time.
const writeRows = 1 << 14

// writeTables writes a part of the weights of all rows, n weights from first on, in
// the order of the rows' global numbers, which is that of tables and ids. All row
// files are read at once.
func (c *Checkpoint) writeTables(to io.Writer, first, n int) error {
	m := merge{c: c, init: shard.InitOf(c.Model.shardOptions(0, c.Ranks)), place: c.Model.placeRows(c.Ranks)}
	defer m.closeFiles()
	for rank := range c.Ranks {
		r, err := c.openRows(rank)
		if err != nil {
			return err
		}
		m.files = append(m.files, cursor{rowReader: r, rowBytes: c.Model.rowBytes()})
	}
	row, chunk := make([]float32, c.Model.Width), make([]float32, writeRows*n)
	for begin := int64(0); begin < m.place.Rows(); begin += writeRows {
		rows := chunk[:min(writeRows, m.place.Rows()-begin)*int64(n)]
		for i := range len(rows) / n {
			if err := m.copyRow(row, begin+int64(i)); err != nil {
				return err
			}
			copy(rows[i*n:(i+1)*n], row[first:])
		}
		if _, err := to.Write(kernels.BytesOf(rows)); err != nil {
			return err
		}
	}
	for i := range m.files {
		f := &m.files[i]
		if err := f.refill(); err != nil {
			return err
		}
		if !f.ended {
			panic(fmt.Sprintf("checkpoint: %s: %d rows left over", c.Path, len(f.ahead)))
		}
	}
	return nil
}

// merge reads the rows of all files in the order of their global numbers.
type merge struct {
	c     *Checkpoint
	init  kernels.RowInit
	place placement.Map
	files []cursor
}

// copyRow copies the weights of the global row g to dst. Each call must pass the next g.
func (m *merge) copyRow(dst []float32, g int64) error {
	f := &m.files[g%int64(m.c.Ranks)]
	slot := int32(g / int64(m.c.Ranks))
	if f.touchedBits()[slot>>6]>>(slot&63)&1 == 0 {
		m.init.Row(dst, g)
		return nil
	}
	if err := f.refill(); err != nil {
		return err
	}
	copy(kernels.BytesOf(dst), f.rows)
	f.drop(1)
	return nil
}

func (m *merge) closeFiles() {
	for _, f := range m.files {
		f.closeReader()
	}
}
