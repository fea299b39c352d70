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
	Owner   int
	Step    int64 // of the commit
	Sealed  int   // epochs that are not committed
	Sets    int   // of staged deltas that there is memory for
	Epochs  int   // of pre-images, likewise
	Entries int   // the most pre-images of an epoch
	// Snapshots is how many there are of the dense part: whoever keeps them says so.
	Snapshots int
	Rows      map[int64][]byte // of touched slots; others are zeros
	Missing   map[int64]bool   // slots
	Left      Loss             // what is to come back, rows of Missing included
	Parities  map[int64][]byte // that are built
	o         *Options
}

// Owners is how many there are whose audits belong together.
func (a *Audit) Owners() int { return a.o.Layout.Owners }

// Audit may be called right after Seal or Survey, when nobody works on rows. Who owns nothing
// has none.
func (c *Committer) Audit() (*Audit, error) {
	if !c.owns() {
		return nil, nil
	}
	a := &Audit{o: &c.o, Owner: c.o.Owner, Step: c.owner.committed, Sealed: len(c.owner.sealed), Sets: c.parity.sets(), Left: c.Left(), Rows: map[int64][]byte{}, Missing: map[int64]bool{}, Parities: map[int64][]byte{}}
	a.Epochs, a.Entries = c.o.Shard.Journal().Held()
	touched, stride := bitset(c.o.Shard.TouchedBits()), c.o.Shard.RowBytes()
	var slots []int32
	for slot := range c.o.Shard.Slots() {
		switch {
		case c.rebuild.isMissing(slot):
			a.Missing[slot] = true
		case touched.has(slot):
			slots = append(slots, int32(slot))
		}
	}
	err := c.shown(slots, a.Rows, func(rows kernels.Matrix) error {
		if err := c.o.Shard.ReadCommitted(rows, slots); err != nil {
			return err
		}
		return c.o.Shard.XorInit(rows, slots)
	})
	if err != nil {
		return nil, err
	}
	var built []int32
	for at := range c.parity.Rows() {
		switch {
		case c.parity.isUnbuilt(at):
		case c.parity.zero(at):
			a.Parities[at] = make([]byte, stride)
		default:
			built = append(built, int32(at))
		}
	}
	return a, c.shown(built, a.Parities, func(rows kernels.Matrix) error {
		c.parity.stream.GatherRows(rows, c.parity.rows, kernels.HostBuffer(built))
		return c.parity.stream.Sync()
	})
}

// shown adds the bytes of rows that read reads, one for each of slots, to a map by slot.
func (c *Committer) shown(slots []int32, to map[int64][]byte, read func(rows kernels.Matrix) error) error {
	stride := c.o.Shard.RowBytes()
	memory, err := c.o.Device.Alloc(len(slots)*stride, kernels.Staging)
	if err != nil || len(slots) == 0 {
		return err
	}
	defer c.o.Device.Free(memory)
	if err := read(kernels.Mat(memory, len(slots), stride/4)); err != nil {
		return err
	}
	all := bytes.Clone(memory.Host())
	for i, slot := range slots {
		to[int64(slot)] = all[i*stride : (i+1)*stride]
	}
	return nil
}

// bounded checks that what is kept for commits does not grow with time.
func (a *Audit) bounded() error {
	for _, x := range []struct {
		what       string
		have, most int
	}{{"sets of staged deltas", a.Sets, maxSealed + 1}, {"epochs of pre-images", a.Epochs, maxSealed + 2},
		{"pre-images of an epoch", a.Entries, int(a.o.Shard.Slots())}, {"snapshots of the dense part", a.Snapshots, maxSealed + 2}} {
		if x.have > x.most {
			return fmt.Errorf("owner %d has %d %s, at most %d should be", a.Owner, x.have, x.what, x.most)
		}
	}
	return nil
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
	for _, a := range audits {
		if err := a.bounded(); err != nil {
			return err
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
