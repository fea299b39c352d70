package commit

import (
	"fmt"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/kernels"
)

// Parity is the parity rows that one owner holds.
type Parity struct {
	group  ec.Group
	code   *ec.Code
	owner  int
	stride int // bytes of a row
	dev    kernels.Device
	buf    kernels.Buffer
	rows   []byte
	// folded has a bit for each row and data column: whether the column's row may
	// differ from its init.
	folded []uint64
	// unbuilt has a bit for each row that is yet to be encoded; what is folded into
	// it is dropped.
	unbuilt []uint64
	missing int64 // bits of unbuilt
}

// newParity reserves the parity rows of an owner, for owners of so many slots.
func newParity(dev kernels.Device, l ec.Layout, code *ec.Code, owner int, slots int64, stride int) (*Parity, error) {
	p := &Parity{group: l.GroupOf(owner), code: code, owner: owner, stride: stride, dev: dev}
	n := p.group.ParityRows(owner, slots)
	if n > 0 {
		var err error
		if p.buf, err = dev.Alloc(int(n)*stride, kernels.Sparse); err != nil {
			return nil, fmt.Errorf("commit: %d parity rows of %d bytes of owner %d: %w", n, stride, owner, err)
		}
		p.rows = p.buf.Host()
	}
	p.folded = make([]uint64, (n*int64(p.group.Data())+63)/64)
	return p, nil
}

func (p *Parity) free() {
	if p.buf.Bytes() > 0 {
		p.dev.Free(p.buf)
	}
}

// Rows is how many parity rows there are.
func (p *Parity) Rows() int64 { return int64(len(p.rows) / p.stride) }

// row is the bytes of a parity row.
func (p *Parity) row(at int64) []byte { return p.rows[at*int64(p.stride) : (at+1)*int64(p.stride)] }

func (p *Parity) isUnbuilt(at int64) bool {
	return p.missing > 0 && p.unbuilt[at>>6]>>(at&63)&1 != 0
}

// fold adds the deltas of some rows of a sender, one after the other in rows.
func (p *Parity) fold(sender int, slots []int32, rows []byte) {
	data := p.group.Data()
	for i, slot := range slots {
		stripe, column := p.group.Stripe(sender, int64(slot))
		shard, at := p.group.Shard(stripe, p.owner)
		if shard < data {
			panic(fmt.Sprintf("commit: owner %d was sent the delta of slot %d of owner %d, whose parity it does not hold", p.owner, slot, sender))
		}
		if p.isUnbuilt(at) {
			continue
		}
		p.mark(at, column)
		p.code.Fold(p.row(at), rows[i*p.stride:(i+1)*p.stride], column, shard-data)
	}
}

// mark says that a column of a row may not be zeros; marked whether it was said.
func (p *Parity) mark(at int64, column int) {
	bit := at*int64(p.group.Data()) + int64(column)
	p.folded[bit>>6] |= 1 << (bit & 63)
}

func (p *Parity) marked(at int64, column int) bool {
	bit := at*int64(p.group.Data()) + int64(column)
	return p.folded[bit>>6]>>(bit&63)&1 != 0
}

// zero reports whether a row is all zeros because no column of it was marked.
func (p *Parity) zero(at int64) bool {
	for column := range p.group.Data() {
		if p.marked(at, column) {
			return false
		}
	}
	return true
}

// forget makes all rows zeros and unbuilt: their holder is new.
func (p *Parity) forget() {
	n := p.Rows()
	p.unbuilt = make([]uint64, (n+63)/64)
	for at := range n {
		p.unbuilt[at>>6] |= 1 << (at & 63)
		if !p.zero(at) {
			clear(p.row(at))
		}
	}
	p.missing = n
	clear(p.folded)
}

// build sets an unbuilt row; nil is all zeros.
func (p *Parity) build(at int64, row []byte) {
	if !p.isUnbuilt(at) {
		return
	}
	p.unbuilt[at>>6] &^= 1 << (at & 63)
	p.missing--
	if row == nil {
		return
	}
	for column := range p.group.Data() {
		p.mark(at, column)
	}
	copy(p.row(at), row)
}
