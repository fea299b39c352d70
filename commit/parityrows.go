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
	dev    kernels.Device
	stream kernels.Stream // the training goroutine's
	rows   kernels.Matrix
	// folded has a bit for each row and data column: whether the column's row may
	// differ from its init. A row without any is zeros: where the CPU
	// addresses rows, whatever stands in its memory; else its memory is.
	folded bitset
	// unbuilt has a bit for each row that is yet to be encoded; what is folded into
	// it is dropped.
	unbuilt bitset
	missing atomic.Int64 // bits of unbuilt

	turns       []ec.Turn     // where this owner's shards are, by stripe modulo the group's size
	columns     [][]ec.Column // where the parities of each member's slots are, by slot modulo data columns
	holds       [][]bool      // and whether they are here
	index, from []int32       // scratch of fold
	factors     []byte
}

// newParityRows reserves the parity rows of an owner.
func newParityRows(o *Options, code *ec.Code) (*parityRows, error) {
	owner, stride := o.Owner, o.Shard.RowBytes()
	p := &parityRows{group: o.Layout.GroupOf(owner), code: code, owner: owner, dev: o.Device, stream: o.Shard.Stream()}
	n := p.group.ParityRows(owner, o.Slots)
	var buf kernels.Buffer
	if n > 0 {
		var err error
		if buf, err = p.dev.Alloc(int(n)*stride, kernels.Rows); err != nil {
			return nil, fmt.Errorf("commit: %d parity rows of %d bytes of owner %d: %w", n, stride, owner, err)
		}
	}
	p.rows = kernels.Mat(buf, int(n), stride/4)
	p.clear()
	p.folded = newBitset(n * int64(p.group.Data()))
	p.turns = p.group.Turns(owner)
	for member := p.group.First; member < p.group.First+p.group.Size; member++ {
		columns, holds := p.group.Columns(member, owner)
		p.columns, p.holds = append(p.columns, columns), append(p.holds, holds)
	}
	return p, nil
}

func (p *parityRows) free() {
	if p.rows.Rows > 0 {
		p.dev.Free(p.rows.Buf)
	}
}

// clear makes all rows zeros that the CPU does not address: it clears others one by one,
// when they are no longer zeros, since most may never be.
func (p *parityRows) clear() {
	if !p.rows.Buf.OnHost() {
		p.stream.Zero(p.rows.Buf)
		_ = p.stream.Sync() // before others work on them; what fails stays failed
	}
}

// Rows is how many parity rows there are.
func (p *parityRows) Rows() int64 { return int64(p.rows.Rows) }

func (p *parityRows) isUnbuilt(at int64) bool {
	return p.missing.Load() > 0 && p.unbuilt.has(at)
}

// fold adds the deltas of some rows of a sender, one after the other in rows.
func (p *parityRows) fold(sender int, slots []int32, rows kernels.Buffer) {
	data, r := uint32(p.group.Data()), int64(p.group.Parity)
	columns, holds := p.columns[sender-p.group.First], p.holds[sender-p.group.First]
	p.index, p.from, p.factors = p.index[:0], p.from[:0], p.factors[:0]
	plain := true
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
		factor := p.code.Factor(column.Column, column.Parity)
		plain = plain && factor == 1
		p.index, p.from, p.factors = append(p.index, int32(at)), append(p.from, int32(i)), append(p.factors, factor)
	}
	factors := p.factors
	if plain {
		factors = nil
	}
	p.stream.FoldRows(p.rows, kernels.HostBuffer(p.index), kernels.Mat(rows, len(slots), p.rows.Cols), kernels.HostBuffer(p.from), factors)
}

// mark says that a column of a row may not be zeros; marked whether it was said. The first
// mark of a row makes its memory zeros, where anything may have stood.
func (p *parityRows) mark(at int64, column int) {
	if p.zero(at) {
		clear(p.rows.RowRange(int(at), 1).Buf.Host()) // see clear
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
	p.clear()
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
	s.ScatterRows(p.rows, rows, kernels.HostBuffer(at))
}

// built says that a row is no longer unbuilt: zeros, where no column is marked.
func (p *parityRows) built(at int64) {
	if p.isUnbuilt(at) {
		p.unbuilt.unset(at)
		p.missing.Add(-1)
	}
}
