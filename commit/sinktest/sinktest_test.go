package sinktest

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/ec"
	"github.com/ecrec/ecrec/internal/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMemory runs the suite over the example.
func TestMemory(t *testing.T) {
	Test(t, Config{
		Open:  OpenMemory,
		Rows:  func(_ *testing.T, s commit.Sink) map[int32][]byte { return s.(*Memory).Rows() },
		Dense: func(_ *testing.T, s commit.Sink) []byte { return s.(*Memory).Dense() },
	})
}

// slow is a Memory that is prepared some time after Seal, and that can be broken.
type slow struct {
	Memory
	arrives  chan struct{} // closed when the newest set is safe
	prepared int64
	broken   error
}

func (s *slow) Begin(step int64, drawn bool) {
	s.finish()
	s.Memory.Begin(step, drawn)
	s.prepared = step
}

func (s *slow) Seal(x *commit.Set) error {
	if s.broken != nil {
		return nil // Wait returns it
	}
	s.arrives = make(chan struct{})
	time.AfterFunc(time.Millisecond, func() { close(s.arrives) })
	return s.Memory.Seal(x)
}

func (s *slow) finish() {
	if s.arrives != nil {
		<-s.arrives
		s.prepared = s.Memory.Prepared()
	}
}

func (s *slow) Wait() error { s.finish(); return s.broken }

func (s *slow) Prepared() int64 {
	select {
	case <-s.arrives:
		s.finish()
	default:
	}
	return s.prepared
}

func (s *slow) Roll(step int64) {
	s.finish()
	s.Memory.Roll(step)
	s.prepared = step
}

func (s *slow) Close() {
	s.finish()
	s.Memory.Close()
}

// TestSlow runs the suite over a sink that works in the background.
func TestSlow(t *testing.T) {
	Test(t, Config{
		Open:  func(commit.SinkOptions) (commit.Sink, error) { return &slow{}, nil },
		Rows:  func(_ *testing.T, s commit.Sink) map[int32][]byte { return s.(*slow).Rows() },
		Break: func(s commit.Sink) { s.(*slow).broken = errors.New("the disk is full") },
	})
}

// TestParity runs the suite over the sink that survives losses. Its parities are checked in
// package commit.
func TestParity(t *testing.T) {
	const ranks = 3
	layout, err := ec.NewLayout(ranks, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	Test(t, Config{
		Ranks: ranks,
		Open: func(o commit.SinkOptions) (commit.Sink, error) {
			rows := o.Shard.Options()
			return commit.NewParity(commit.ParityOptions{Env: o.Env, Device: o.Device, Shard: o.Shard, Layout: layout, Code: ec.XOR,
				Slots: rows.Map.Slots(0), Owner: rows.Owner})
		},
		Join: func(s commit.Sink, w World) func() {
			rounds := collectives.New(env.Real(), w.Endpoint, 2, w.Device, w.Rows.Stream())
			s.(*commit.Parity).Join(w.Comm, rounds, w.Rows)
			return func() {
				s.(*commit.Parity).Leave()
				rounds.Close()
			}
		},
	})
}
