package commit

import (
	"fmt"
	"sync/atomic"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/kernels"
)

// parityRows are those that one owner holds.
type parityRows struct {
	group  ec.Group
	code   *ec.Code
	owner  int
	stride int // bytes of a row
	dev    kernels.Device
	buf    kernels.Buffer
	rows   []byte
	// folded has a bit for each row and data column: whether the column's row may
	// differ from its init. A row without any is zeros, whatever stands in its memory.
	folded bitset
	// unbuilt has a bit for each row that is yet to be encoded; what is folded into
	// it is dropped.
	unbuilt bitset
	missing atomic.Int64 // bits of unbuilt

	turns       []ec.Turn     // where this owner's shards are, by stripe modulo the group's size
	columns     [][]ec.Column // where the parities of each member's slots are, by slot modulo data columns
	holds       [][]bool      // and whether they are here
	index, from []int32       // scratch of fold
}

// newParityRows reserves the parity rows of an owner, for owners of so many slots.
func newParityRows(dev kernels.Device, l ec.Layout, code *ec.Code, owner int, slots int64, stride int) (*parityRows, error) {
	p := &parityRows{group: l.GroupOf(owner), code: code, owner: owner, stride: stride, dev: dev}
	n := p.group.ParityRows(owner, slots)
	if n > 0 {
		var err error
		if p.buf, err = dev.Alloc(int(n)*stride, kernels.Rows); err != nil {
			return nil, fmt.Errorf("commit: %d parity rows of %d bytes of owner %d: %w", n, stride, owner, err)
		}
		p.rows = p.buf.Host()
	}
	p.folded = newBitset(n * int64(p.group.Data()))
	p.turns = p.group.Turns(owner)
	for member := p.group.First; member < p.group.First+p.group.Size; member++ {
		columns, holds := p.group.Columns(member, owner)
		p.columns, p.holds = append(p.columns, columns), append(p.holds, holds)
	}
	return p, nil
}

func (p *parityRows) free() {
	if p.buf.Bytes() > 0 {
		p.dev.Free(p.buf)
	}
}

// Rows is how many parity rows there are.
func (p *parityRows) Rows() int64 { return int64(len(p.rows) / p.stride) }

// matrix is all rows, of which those that are zero hold anything.
func (p *parityRows) matrix() kernels.Matrix { return kernels.Mat(p.buf, int(p.Rows()), p.stride/4) }

// row is the memory of a parity row.
func (p *parityRows) row(at int64) []byte { return p.rows[at*int64(p.stride) : (at+1)*int64(p.stride)] }

func (p *parityRows) isUnbuilt(at int64) bool {
	return p.missing.Load() > 0 && p.unbuilt.has(at)
}

// fold adds the deltas of some rows of a sender, one after the other in rows.
func (p *parityRows) fold(s kernels.Stream, sender int, slots []int32, rows kernels.Buffer) {
	data, r := uint32(p.group.Data()), int64(p.group.Parity)
	columns, holds := p.columns[sender-p.group.First], p.holds[sender-p.group.First]
	p.index, p.from = p.index[:0], p.from[:0]
	for i, slot := range slots {
		turn := uint32(slot) / data
		x := uint32(slot) - turn*data
		if !holds[x] {
			panic(fmt.Sprintf("commit: owner %d was sent the delta of slot %d of owner %d, whose parity it does not hold", p.owner, slot, sender))
		}
		column := columns[x]
		at := column.Row + int64(turn)*r
		if p.isUnbuilt(at) {
			continue
		}
		p.mark(at, column.Column)
		if p.code.Plain(column.Column, column.Parity) {
			p.index, p.from = append(p.index, int32(at)), append(p.from, int32(i))
			continue
		}
		p.code.Fold(p.row(at), rows.Slice(i*p.stride, p.stride).Host(), column.Column, column.Parity)
	}
	s.XorInto(p.matrix(), kernels.HostBuffer(p.index), kernels.Mat(rows, len(slots), p.stride/4), kernels.HostBuffer(p.from))
}

// mark says that a column of a row may not be zeros; marked whether it was said. The first
// mark of a row makes its memory zeros, where anything may have stood.
func (p *parityRows) mark(at int64, column int) {
	if p.zero(at) {
		clear(p.row(at))
	}
	p.folded.set(at*int64(p.group.Data()) + int64(column))
}

// markRead marks what a shard that a row is built from may stand for: a parity, for every
// column. The row's memory is build's.
func (p *parityRows) markRead(at int64, shard int) {
	first, n := at*int64(p.group.Data()), int64(p.group.Data())
	if shard < p.group.Data() {
		first, n = first+int64(shard), 1
	}
	for bit := first; bit < first+n; bit++ {
		p.folded.set(bit)
	}
}

func (p *parityRows) marked(at int64, column int) bool {
	return p.folded.has(at*int64(p.group.Data()) + int64(column))
}

// zero reports whether a row is all zeros because no column of it was marked.
func (p *parityRows) zero(at int64) bool {
	first := at * int64(p.group.Data())
	last := first + int64(p.group.Data())
	return p.folded.next(first, last) == last
}

// forget makes all rows zeros and unbuilt: their holder is new.
func (p *parityRows) forget() {
	n := p.Rows()
	p.unbuilt = newBitset(n)
	p.unbuilt.fill(n)
	p.missing.Store(n)
	clear(p.folded)
}

// build sets unbuilt rows (len(at), stride), whose columns are marked.
func (p *parityRows) build(s kernels.Stream, at []int32, rows kernels.Matrix) {
	for _, row := range at {
		p.built(int64(row))
	}
	s.ScatterRows(p.matrix(), rows, kernels.HostBuffer(at))
}

// built says that a row is no longer unbuilt: zeros, where no column is marked.
func (p *parityRows) built(at int64) {
	if p.isUnbuilt(at) {
		p.unbuilt.unset(at)
		p.missing.Add(-1)
	}
}
