package commit

import (
	"bytes"
	"crypto/subtle"
	"slices"
	"testing"

	"github.com/ecrec/ecrec/kernels"
)

// mirror is a Sink that keeps a copy of all rows, as of the last commit. It reports that it is
// prepared one call of Prepared later than it is.
type mirror struct {
	t        testing.TB
	stride   int
	rows     []byte
	sets     []mirrored
	prepared []int64
	spare    []byte
	will     bool // the answer of WillTake
}

type mirrored struct {
	step   int64
	slots  []int32
	deltas []byte
}

func (k *mirror) NeedsPreImages() bool         { return true }
func (k *mirror) Begin(step int64, drawn bool) { k.sets, k.prepared = nil, []int64{step} }
func (k *mirror) Close()                       {}

func (k *mirror) Wait() error {
	k.prepared = k.prepared[len(k.prepared)-1:]
	return nil
}

func (k *mirror) Prepared() int64 {
	step := k.prepared[0]
	if len(k.prepared) > 1 {
		k.prepared = k.prepared[1:]
	}
	return step
}

// WillTake is wrong for every other set.
func (k *mirror) WillTake() bool {
	k.will = !k.will
	return k.will
}

func (k *mirror) Seal(s *Set) error {
	if !slices.IsSorted(s.Slots) {
		k.t.Errorf("slots %d do not ascend", s.Slots)
	}
	n := len(s.Slots)
	deltas, at := make([]byte, n*k.stride), make([]int32, n)
	for i := range at {
		at[i] = int32(i)
	}
	if n > 0 {
		if err := s.Deltas.Read(kernels.Mat(kernels.HostBuffer(deltas), n, k.stride/4), at); err != nil {
			return err
		}
	}
	now, err := s.Rows(nil, s.Slots)
	if err != nil {
		return err
	}
	if _, err := s.DigestChange(); err != nil {
		return err
	}
	if s.read != k.will {
		k.t.Errorf("at step %d WillTake is %v, and the rows are read with the digest: %v", s.Step, k.will, s.read)
	}
	taken, err := s.TakeRows(k.spare)
	if err != nil || !bytes.Equal(taken, now) {
		k.t.Errorf("at step %d the taken rows differ from those read: %v", s.Step, err)
	}
	for i := range taken { // they are not the set's any more
		taken[i] ^= 0xa5
	}
	k.spare = taken
	changed, err := s.Changed(nil)
	if err != nil {
		return err
	}
	before := mirror{stride: k.stride, rows: bytes.Clone(k.rows), sets: slices.Clone(k.sets)}
	before.Commit(s.Step)
	for i, slot := range s.Slots {
		was := before.rows[int(slot)*k.stride:][:k.stride]
		is := now[i*k.stride:][:k.stride]
		if slices.Contains(changed, slot) == bytes.Equal(was, is) {
			k.t.Errorf("at step %d the changed slots are %d, and slot %d is among them or not wrongly", s.Step, changed, slot)
		}
		subtle.XORBytes(was, was, deltas[i*k.stride:][:k.stride])
		if !bytes.Equal(was, is) {
			k.t.Errorf("the delta of slot %d does not lead to the row at step %d", slot, s.Step)
		}
	}
	k.sets, k.prepared = append(k.sets, mirrored{s.Step, slices.Clone(s.Slots), deltas}), append(k.prepared, s.Step)
	return nil
}

func (k *mirror) Commit(step int64) {
	for ; len(k.sets) > 0 && k.sets[0].step <= step; k.sets = k.sets[1:] {
		for i, slot := range k.sets[0].slots {
			row := k.rows[int(slot)*k.stride:][:k.stride]
			subtle.XORBytes(row, row, k.sets[0].deltas[i*k.stride:][:k.stride])
		}
	}
}

func (k *mirror) Roll(step int64) {
	k.Commit(step)
	k.sets, k.prepared = nil, []int64{step}
}
