package sinktest

import (
	"slices"

	"github.com/ecrec/ecrec/commit"
)

// Memory is a Sink that keeps the rows of its rank in memory. It holds the rows that differ
// from those of the last Begin, as of the last commit.
type Memory struct {
	rows   map[int32][]byte // by slot
	dense  []byte
	sealed []sealedSet // not committed yet, oldest first
	step   int64       // of the newest set, or of Begin
}

// sealedSet is a copy of a commit.Set.
type sealedSet struct {
	step  int64
	slots []int32
	rows  []byte
	dense []byte
}

// OpenMemory is a commit.SinkFactory.
func OpenMemory(commit.SinkOptions) (commit.Sink, error) { return &Memory{}, nil }

// Rows are the rows as of the last commit, weights and optimizer state, by slot.
func (m *Memory) Rows() map[int32][]byte { return m.rows }

// Dense is the dense part of the model as of the last commit. It is empty on ranks that keep
// no snapshots of it.
func (m *Memory) Dense() []byte { return m.dense }

// NeedsPreImages implements commit.Sink.
func (m *Memory) NeedsPreImages() bool { return false }

// Begin implements commit.Sink.
func (m *Memory) Begin(step int64, drawn bool) {
	*m = Memory{rows: map[int32][]byte{}, step: step}
}

// Seal implements commit.Sink. The set is valid until Seal returns, so its rows are copied.
func (m *Memory) Seal(s *commit.Set) (err error) {
	x := sealedSet{step: s.Step}
	if x.slots, err = s.Changed(nil); err != nil {
		return err
	}
	if x.rows, err = s.Rows(nil, x.slots); err != nil {
		return err
	}
	if x.dense, err = s.Dense(nil); err != nil {
		return err
	}
	m.sealed, m.step = append(m.sealed, x), s.Step
	return nil
}

// Wait implements commit.Sink. Nothing runs in the background.
func (m *Memory) Wait() error { return nil }

// Prepared implements commit.Sink. A set is safe as soon as Seal has copied it.
func (m *Memory) Prepared() int64 { return m.step }

// Commit implements commit.Sink.
func (m *Memory) Commit(step int64) {
	for len(m.sealed) > 0 && m.sealed[0].step <= step {
		x := m.sealed[0]
		m.sealed = m.sealed[1:]
		m.dense = x.dense
		for row := range slices.Chunk(x.rows, max(1, len(x.rows)/max(1, len(x.slots)))) {
			m.rows[x.slots[0]], x.slots = row, x.slots[1:]
		}
	}
}

// Roll implements commit.Sink.
func (m *Memory) Roll(step int64) {
	m.Commit(step)
	m.sealed, m.step = nil, step
}

// Close implements commit.Sink.
func (m *Memory) Close() { *m = Memory{} }
