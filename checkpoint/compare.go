package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// Comparison lists the differences between the models of two checkpoints.
type Comparison struct {
	// Rows is how many rows differ, in weights or state, and Tables the tables that they are of.
	Rows   int64
	Tables int
	// Dense is how many floats of the dense part and its state differ.
	Dense int64
	// First are the first float that differs of each of the first few rows, and of each of the first
	// few dense tensors.
	First []Difference
}

// Equal reports whether the models have the same bytes.
func (c *Comparison) Equal() bool { return c.Rows == 0 && c.Dense == 0 }

// Difference is a float that has different bits in two checkpoints.
type Difference struct {
	Tensor string // its name in a model file; for the state of a row, that of the row's first weight
	Row    int64  // in its table; -1: the tensor is dense
	Rank   int    // the owner of the row in the first checkpoint
	Index  int64  // in the part of the row that Tensor holds, in the row's state, or in the dense tensor
	State  bool   // the float is optimizer state of the row
	A, B   uint32 // the bits
}

// String names the float and its two values.
func (d Difference) String() string {
	at := fmt.Sprintf("tensor %s, value %d", d.Tensor, d.Index)
	if d.Row >= 0 {
		of := "weight"
		if d.State {
			of = "optimizer state"
		}
		at = fmt.Sprintf("table %s, row %d (of rank %d), %s %d", d.Tensor, d.Row, d.Rank, of, d.Index)
	}
	values := fmt.Sprintf("%v (%08x) and %v (%08x)", math.Float32frombits(d.A), d.A, math.Float32frombits(d.B), d.B)
	if x := d.A ^ d.B; bits.OnesCount32(x) == 1 {
		values += fmt.Sprintf(", which differ in bit %d", bits.TrailingZeros32(x))
	}
	return at + ": " + values
}

// mostFirst bounds the rows and the dense tensors in Comparison.First, each.
const mostFirst = 4

// Compare compares the models of two checkpoints, byte by byte. They may be of different numbers of ranks.
// A row that only one of them holds is compared with its initial value. It checks the sums of all files of
// both. The error is a Mismatch if they do not fit one model.
func Compare(a, b *Checkpoint) (*Comparison, error) {
	if err := a.Check(b.Model); err != nil {
		return nil, err
	}
	x := &comparing{model: &a.Model, place: a.Model.placeRows(a.Ranks), table: -1}
	if err := x.compareRows(a, b); err != nil {
		return nil, err
	}
	return &x.Comparison, x.compareDense(a, b)
}

// comparing is a comparison in progress.
type comparing struct {
	Comparison
	model *Model
	place placement.Map // in the first checkpoint
	table int           // of the last row that differed
}

func (x *comparing) compareRows(a, b *Checkpoint) error {
	left, err := a.openTouched()
	if err != nil {
		return err
	}
	defer left.closeFiles()
	right, err := b.openTouched()
	if err != nil {
		return err
	}
	defer right.closeFiles()
	init := shard.InitOf(a.Model.shardOptions(0, 1))
	drawn := make([]float32, a.Model.Width+a.Model.RowState)
	for {
		g := min(left.at, right.at)
		if g == noRow {
			return nil
		}
		init.Row(drawn[:a.Model.Width], g)
		x.compareRow(g, left.rowAt(g, drawn), right.rowAt(g, drawn))
		for _, m := range []*touchedRows{left, right} {
			if err := m.pass(g); err != nil {
				return err
			}
		}
	}
}

func (x *comparing) compareRow(g int64, p, q []byte) {
	if bytes.Equal(p, q) {
		return
	}
	if table := x.place.Table(g); table != x.table {
		x.table = table
		x.Tables++
	}
	if x.Rows++; x.Rows > mostFirst {
		return
	}
	d := Difference{Row: g - x.place.Base[x.table], Rank: int(g % int64(x.place.Owners))}
	at := 0
	for d.A, d.B = floatAt(p, at), floatAt(q, at); d.A == d.B; d.A, d.B = floatAt(p, at), floatAt(q, at) {
		at++
	}
	parts := x.model.rowParts()
	d.Tensor, d.Index, d.State = parts[0].Tensors[x.table], int64(at-x.model.Width), true
	for _, part := range parts {
		if at < part.Width && d.State {
			d.Tensor, d.Index, d.State = part.Tensors[x.table], int64(at), false
		}
		at -= part.Width
	}
	x.First = append(x.First, d)
}

func floatAt(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

func (x *comparing) compareDense(a, b *Checkpoint) error {
	p, err := a.readAllDense()
	if err != nil {
		return err
	}
	q, err := b.readAllDense()
	if err != nil {
		return err
	}
	tensors := 0
	for _, s := range x.model.denseSpecs() {
		n, _ := s.Bytes() // checked with the manifest
		before := x.Dense
		for i := range n / 4 {
			if d := (Difference{Tensor: s.Name, Row: -1, Index: i, A: floatAt(p, int(i)), B: floatAt(q, int(i))}); d.A != d.B {
				if x.Dense++; x.Dense == before+1 && tensors < mostFirst {
					tensors++
					x.First = append(x.First, d)
				}
			}
		}
		p, q = p[n:], q[n:]
	}
	return nil
}

// readAllDense returns the dense weights and their state, in the order of Model.denseSpecs.
func (c *Checkpoint) readAllDense() ([]byte, error) {
	n := c.Model.denseBytes()
	all := make([]byte, n+c.Model.stateBytes())
	return all, c.ReadDense(c.Model, all[:n], all[n:])
}

// noRow is the position after the last row.
const noRow = math.MaxInt64

// touchedRows reads the touched rows of all files of a checkpoint in the order of their global numbers.
type touchedRows struct {
	c     *Checkpoint
	files []cursor
	at    int64 // the global number of the next row, or noRow
}

// openTouched opens the row files, before the first row.
func (c *Checkpoint) openTouched() (*touchedRows, error) {
	m := &touchedRows{c: c, at: -1}
	for rank := range c.Ranks {
		r, err := c.openRows(rank)
		if err != nil {
			m.closeFiles()
			return nil, err
		}
		m.files = append(m.files, cursor{rowReader: r, rowBytes: c.Model.rowBytes()})
	}
	if err := m.pass(-1); err != nil {
		m.closeFiles()
		return nil, err
	}
	return m, nil
}

// rowAt returns the bytes of the global row g, which is at or before the next one: those of the drawn row
// if g is not touched. They are valid until pass is called.
func (m *touchedRows) rowAt(g int64, drawn []float32) []byte {
	if g != m.at {
		return kernels.BytesOf(drawn)
	}
	f := &m.files[g%int64(m.c.Ranks)]
	return f.rows[:f.rowBytes]
}

// pass continues behind the global row g, if that is the next one.
func (m *touchedRows) pass(g int64) error {
	if g != m.at {
		return nil
	}
	if g >= 0 {
		m.files[g%int64(m.c.Ranks)].drop(1)
	}
	m.at = noRow
	for rank := range m.files {
		f := &m.files[rank]
		if err := f.refill(); err != nil {
			return err
		}
		if len(f.ahead) > 0 {
			m.at = min(m.at, int64(f.ahead[0])*int64(m.c.Ranks)+int64(rank))
		}
	}
	return nil
}

func (m *touchedRows) closeFiles() {
	for _, f := range m.files {
		f.closeReader()
	}
}
