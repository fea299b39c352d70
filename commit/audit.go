package commit

import (
	"bytes"
	"crypto/subtle"
	"fmt"

	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/digest"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// Audit is a copy of the rows and parities of one owner as of a commit, for simulations and
// tests. Rows are XOR their init, as they are coded.
type Audit struct {
	Owner   int
	Step    int64 // of the commit
	Sealed  int   // epochs that are not committed
	Sets    int   // sets of staged deltas that have memory
	Epochs  int   // epochs of pre-images that have memory
	Entries int   // the most pre-images of an epoch
	// Snapshots is how many of the dense part have memory. The caller of Audit sets it.
	Snapshots int
	// Digest is that of the owner's rows according to its commits. After a loss it may be that
	// of another owner in part, so only the sum over all owners is that of their rows.
	Digest   digest.Sum
	Rows     map[int64][]byte // of touched slots; all others are zeros
	Missing  map[int64]bool   // slots
	Left     Loss             // not rebuilt yet, with the rows of Missing
	Parities map[int64][]byte // that are built
	digests  bool             // Digest is set
	o        *ParityOptions
}

// Owners is how many owners have audits that belong together.
func (a *Audit) Owners() int { return a.o.Layout.Owners }

// Audit may be called right after Seal or Survey, when no goroutine uses the rows. It is nil on
// ranks that own nothing. rows is the sink of the same rank that has the digest of its rows; nil:
// there is none.
func (p *Parity) Audit(rows *Digests) (*Audit, error) {
	if !p.ownsRows() {
		return nil, nil
	}
	h := p.o.Shard
	a := &Audit{o: &p.o, Owner: p.o.Owner, Step: p.committed, Sealed: len(p.machine.epochs), Sets: len(p.staged) + len(p.idle), Left: p.Left(),
		Rows: map[int64][]byte{}, Missing: map[int64]bool{}, Parities: map[int64][]byte{}}
	a.Epochs, a.Entries = h.Journal().Held()
	if a.digests = rows != nil; a.digests {
		a.Digest = rows.At(p.committed)
	}
	touched, stride := bitset(h.TouchedBits()), h.RowBytes()
	var slots []int32
	for slot := range h.Slots() {
		switch {
		case p.rebuild.isMissing(slot):
			a.Missing[slot] = true
		case touched.has(slot):
			slots = append(slots, int32(slot))
		}
	}
	err := p.copyRows(slots, a.Rows, func(rows kernels.Matrix) error {
		if err := h.ReadCommitted(rows, slots); err != nil {
			return err
		}
		return h.XorInit(rows, slots)
	})
	if err != nil {
		return nil, err
	}
	var built, places []int32
	for at := range p.Rows() {
		switch {
		case p.isUnbuilt(at):
		case p.isZero(at):
			a.Parities[at] = make([]byte, stride)
		default:
			built, places = append(built, int32(at)), append(places, p.placeOf(at))
		}
	}
	return a, p.copyRows(built, a.Parities, func(rows kernels.Matrix) error {
		p.stream.GatherRows(rows, p.rows, kernels.HostBuffer(places))
		return p.stream.Sync()
	})
}

// copyRows adds the bytes of rows to a map by slot. read reads a row for each of slots.
func (p *Parity) copyRows(slots []int32, to map[int64][]byte, read func(rows kernels.Matrix) error) error {
	stride := p.o.Shard.RowBytes()
	memory, err := p.o.Device.Alloc(len(slots)*stride, kernels.Staging)
	if err != nil || len(slots) == 0 {
		return err
	}
	defer p.o.Device.Free(memory)
	if err := read(kernels.Mat(memory, len(slots), stride/4)); err != nil {
		return err
	}
	all := bytes.Clone(memory.Host())
	for i, slot := range slots {
		to[int64(slot)] = all[i*stride : (i+1)*stride]
	}
	return nil
}

// checkBounds checks that the memory of commits does not grow with time.
func (a *Audit) checkBounds() error {
	for _, x := range []struct {
		what       string
		have, most int
	}{{"sets of staged deltas", a.Sets, maxSealed + 1}, {"epochs of pre-images", a.Epochs, maxSealed + 2},
		{"pre-images of an epoch", a.Entries, int(a.o.Shard.Slots())}, {"snapshots of the dense part", a.Snapshots, maxSealed + 2}} {
		if x.have > x.most {
			return fmt.Errorf("owner %d has %d %s, at most %d are needed", a.Owner, x.have, x.what, x.most)
		}
	}
	return nil
}

// checkDigests checks that the digests of all owners add up to that of their rows, if none is
// missing.
func checkDigests(audits []*Audit) error {
	o := audits[0].o.Shard.Options()
	d, init := shard.NewDigester(o), shard.InitOf(o)
	var want digest.Sum
	for owner, a := range audits {
		if len(a.Missing) > 0 || !a.digests {
			return nil
		}
		want.Add(a.Digest)
		for slot, coded := range a.Rows {
			g, weights := o.Map.Global(owner, slot), make([]float32, o.Width)
			init.Row(weights, g)
			row := bytes.Clone(coded)
			subtle.XORBytes(row, coded, kernels.BytesOf(weights))
			d.Add(g, row)
		}
	}
	if d.Sum != want {
		return fmt.Errorf("at the commit of step %d the digest of all rows is %v, and the epochs lead to %v", audits[0].Step, d.Sum, want)
	}
	return nil
}

// CheckAudits checks that the audits of all owners, in their order, are as of one commit, that
// their digests are those of their rows, and that every parity is the encoding of its stripe.
func CheckAudits(audits []*Audit) error {
	o := audits[0].o
	l, rowBytes := o.Layout, o.Shard.RowBytes()
	for owner, a := range audits {
		if a.Step != audits[0].Step || a.Sealed > maxSealed {
			return fmt.Errorf("owner %d is at the commit of step %d with %d epochs sealed, owner 0 at that of step %d", owner,
				a.Step, a.Sealed, audits[0].Step)
		}
	}
	for _, a := range audits {
		if err := a.checkBounds(); err != nil {
			return err
		}
	}
	if err := checkDigests(audits); err != nil {
		return err
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
					return fmt.Errorf("at the commit of step %d parity %d of stripe %d of group %d, at owner %d, is not the encoding of its rows",
						audits[0].Step, j, stripe, g, owner)
				}
			}
		}
	}
	return nil
}
