package commit

import (
	"bytes"
	"crypto/subtle"
	"slices"
	"testing"

	"github.com/ecrec/ecrec/kernels"
)

// mirror is a Sink that keeps a copy of all rows, as of the last commit. It says that it
// is prepared a word later than it is.
type mirror struct {
	t        testing.TB
	stride   int
	rows     []byte
	sets     []mirrored
	prepared []int64
}

type mirrored struct {
	step   int64
	slots  []int32
	deltas []byte
}

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

func (k *mirror) Seal(s *Set) error {
	n := len(s.Slots)
	deltas, now := make([]byte, n*k.stride), make([]byte, n*k.stride)
	at := make([]int32, n)
	for i := range at {
		at[i] = int32(i)
	}
	if !slices.IsSorted(s.Slots) {
		k.t.Errorf("slots %d do not ascend", s.Slots)
	}
	if n > 0 {
		if err := s.Deltas(kernels.Mat(kernels.HostBuffer(deltas), n, k.stride/4), at); err != nil {
			return err
		}
		if err := s.Rows(kernels.Mat(kernels.HostBuffer(now), n, k.stride/4)); err != nil {
			return err
		}
	}
	before := mirror{stride: k.stride, rows: bytes.Clone(k.rows), sets: slices.Clone(k.sets)}
	before.Commit(s.Step)
	for i, slot := range s.Slots {
		was := before.rows[int(slot)*k.stride:][:k.stride]
		subtle.XORBytes(was, was, deltas[i*k.stride:][:k.stride])
		if !bytes.Equal(was, now[i*k.stride:][:k.stride]) {
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
