package commit

import (
	"bytes"
	"fmt"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/kernels"
)

// Audit is what one owner holds as of a commit: rows XOR their init, as they are coded.
// Auditing copies all of them: it is for simulations and tests.
type Audit struct {
	Owner    int
	Step     int64            // of the commit
	Sealed   int              // epochs that are not committed
	Rows     map[int64][]byte // of touched slots; others are zeros
	Missing  map[int64]bool   // slots
	Parities map[int64][]byte // that are built
	o        *Options
}

// Owners is how many there are whose audits belong together.
func (a *Audit) Owners() int { return a.o.Layout.Owners }

// Audit may be called right after Seal, when nobody works on rows. Who owns nothing
// has none.
func (c *Committer) Audit() (*Audit, error) {
	if c.parity == nil {
		return nil, nil
	}
	a := &Audit{o: &c.o, Owner: c.o.Owner, Step: c.committed, Sealed: len(c.sealed), Rows: map[int64][]byte{}, Missing: map[int64]bool{}, Parities: map[int64][]byte{}}
	touched, stride := c.o.Shard.TouchedBits(), c.o.Shard.RowBytes()
	var slots []int32
	for slot := range c.o.Shard.Slots() {
		switch {
		case c.rebuild.isMissing(slot):
			a.Missing[slot] = true
		case touched[slot>>6]>>(slot&63)&1 != 0:
			slots = append(slots, int32(slot))
		}
	}
	rows := make([]byte, len(slots)*stride)
	if len(slots) > 0 {
		if err := c.o.Shard.ReadCommitted(kernels.Mat(kernels.HostBuffer(rows), len(slots), stride/4), slots); err != nil {
			return nil, err
		}
	}
	for i, slot := range slots {
		row := rows[i*stride : (i+1)*stride]
		c.xorInit(row, slot)
		a.Rows[int64(slot)] = row
	}
	for at := range c.parity.Rows() {
		if !c.parity.isUnbuilt(at) {
			a.Parities[at] = bytes.Clone(c.parity.row(at))
		}
	}
	return a, nil
}

// CheckAudits checks that what all owners hold, in their order, is as of one commit, and
// that every parity is the encoding of its stripe.
func CheckAudits(audits []*Audit) error {
	o := audits[0].o
	l, rowBytes := o.Layout, o.Shard.RowBytes()
	for owner, a := range audits {
		if a.Step != audits[0].Step || a.Sealed > maxSealed {
			return fmt.Errorf("owner %d is at the commit of step %d with %d epochs sealed, owner 0 at that of step %d", owner, a.Step, a.Sealed, audits[0].Step)
		}
	}
	zeros := make([]byte, rowBytes)
	for g := range l.Groups() {
		group := l.Group(g)
		code, err := ec.NewCode(o.Code, group.Data(), group.Parity)
		if err != nil {
			return err
		}
		for stripe := range group.Stripes(o.Slots) {
			want := make([][]byte, group.Parity)
			for j := range want {
				want[j] = make([]byte, rowBytes)
			}
			lost := false
			for column := range group.Data() {
				owner, at := group.Holder(stripe, column)
				lost = lost || audits[owner].Missing[at]
				row := audits[owner].Rows[at]
				if row == nil {
					row = zeros
				}
				for j := range want {
					code.Fold(want[j], row, column, j)
				}
			}
			for j := range want {
				owner, at := group.Holder(stripe, group.Data()+j)
				if have, built := audits[owner].Parities[at]; built && !lost && !bytes.Equal(have, want[j]) {
					return fmt.Errorf("at the commit of step %d parity %d of stripe %d of group %d, at owner %d, is not the encoding of its rows", audits[0].Step, j, stripe, g, owner)
				}
			}
		}
	}
	return nil
}
