package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/commit/sinktest"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/rowlog"
	"github.com/ecrec/ecrec/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRulesOfSinks runs the conformance suite of sinks.
func TestRulesOfSinks(t *testing.T) {
	sinktest.Test(t, sinktest.Config{
		Open: func(o commit.SinkOptions) (commit.Sink, error) {
			return Open(Options{Env: o.Env, Path: t.TempDir(), Rank: o.Rank, Ranks: 1, Shard: o.Shard,
				Past: func(int64) (Past, error) { return Past{}, nil }, Dense: func() ([]byte, error) { return nil, nil },
				Digest: func(int64) string { return "" }})
		},
		Rows: func(t *testing.T, sink commit.Sink) map[int32][]byte {
			s, rows := sink.(*Store), map[int32][]byte{}
			s.Drain(time.Minute)
			must(t, s.disk.Each(func(slots []int32, all []byte) error {
				for i, slot := range slots {
					rows[slot] = bytes.Clone(all[i*s.o.Shard.RowBytes():][:s.o.Shard.RowBytes()])
				}
				return nil
			}))
			return rows
		},
		Dense: func(t *testing.T, sink commit.Sink) []byte {
			sink.(*Store).Drain(time.Minute)
			extra, err := sink.(*Store).disk.Extra()
			must(t, err)
			_, dense, _, _, err := readExtra(extra)
			must(t, err)
			return dense
		},
	})
}

// model is a rank's rows and past, with their copies at each commit.
type model struct {
	t      *testing.T
	rnd    *rand.Rand
	shard  *shard.Shard
	dense  kernels.Buffer
	losses []float64
	at     map[int64]state
	dir    *rowlog.MemDir
}

// state is a copy of a model at the end of a step.
type state struct {
	rows   []byte // of all slots
	dense  []byte
	losses []float64
}

func newModel(t *testing.T, rnd *rand.Rand) *model {
	dev, err := kernels.NewCPU(kernels.CPUOptions{Poison: true})
	must(t, err)
	stream := dev.Stream(1)
	h, err := shard.New(dev, stream, shard.Options{Map: placement.New([]int64{40, 3, 17}, 1), Seed: 5, Width: 1 + rnd.IntN(5), State: rnd.IntN(3)})
	must(t, err)
	dense, err := dev.Alloc(16, kernels.Working)
	must(t, err)
	h.OpenJournal(shard.KeepHashes, env.Real().Now)
	t.Cleanup(func() { h.Close(); dev.Free(dense); stream.Close() })
	return &model{t: t, rnd: rnd, shard: h, dense: dense, at: map[int64]state{}, dir: rowlog.NewMemDir(rand.New(rand.NewPCG(rnd.Uint64(), 2)))}
}

// open opens a store of the model.
func (m *model) open() *Store {
	m.t.Helper()
	s, err := Open(Options{Env: env.Real(), Ranks: 1, Shard: m.shard, Lineage: lineage.ID{9},
		Past:   func(step int64) (Past, error) { return Past{[]byte{byte(step), 7}, m.losses}, nil },
		Dense:  func() ([]byte, error) { return m.dense.Host(), nil },
		Digest: func(step int64) string { return strings.Repeat(string(rune('a'+step%26)), digestBytes) },
		Dir:    func(string) (Dir, error) { return m.dir, nil },
		Retry:  time.Millisecond,
	})
	must(m.t, err)
	return s
}

// train changes some rows, and the rest of the model, as a step does.
func (m *model) train() {
	n := 1 + m.rnd.IntN(20)
	var slots []int32
	for _, x := range m.rnd.Perm(int(m.shard.Slots()))[:n] {
		slots = append(slots, int32(x))
	}
	rows := make([]byte, n*m.shard.RowBytes())
	for i := range rows {
		rows[i] = byte(m.rnd.Uint32())
	}
	must(m.t, m.shard.StoreRows(slots, kernels.Mat(kernels.HostBuffer(rows), n, m.shard.RowBytes()/4)))
	for i := range m.dense.Host() {
		m.dense.Host()[i] = byte(m.rnd.Uint32())
	}
	m.losses = append(m.losses, m.rnd.Float64())
}

// copyState copies the model.
func (m *model) copyState() state {
	x := state{make([]byte, m.shard.Slots()*int64(m.shard.RowBytes())), bytes.Clone(m.dense.Host()), append([]float64(nil), m.losses...)}
	_, _, err := m.shard.ReadTouched(x.rows, 0)
	must(m.t, err)
	return x
}

// restore sets the model to that of a step in a store, and checks it.
func (m *model) restore(s *Store, step int64) {
	m.t.Helper()
	m.shard.Reset()
	past, dense, digest, err := s.Restore(step, m.shard.StoreRaw)
	must(m.t, err)
	copy(m.dense.Host(), dense)
	m.losses = past.Losses
	if got, want := m.copyState(), m.at[step]; !bytes.Equal(got.rows, want.rows) || !bytes.Equal(got.dense, want.dense) ||
		binaryOf(got.losses) != binaryOf(want.losses) {
		m.t.Fatalf("step %d: the store holds another model: %+v, want %+v", step, got, want)
	}
	if past.Record[0] != byte(step) || digest[0] != byte('a'+step%26) {
		m.t.Fatalf("step %d: record %v, digest %s", step, past.Record, digest)
	}
}

func binaryOf(x []float64) string {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, x) // a buffer takes all
	return b.String()
}

// TestRestarts trains, holds epochs, lets the disk fail, and loses the process or the power at any time. The model that the next process
// restores is that of a commit, no older than the durable one; sometimes it goes back to an older one that the log holds.
func TestRestarts(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	var seen struct{ restarts, held, lost, failed, back int }
	for range 40 {
		m := newModel(t, rnd)
		step := int64(0)
		for life := range 4 {
			s := m.open()
			durable := s.Step()
			if life > 0 && durable > 0 {
				if seen.restarts++; durable < step {
					seen.lost++
				}
				for back := durable - 1; rnd.IntN(3) == 0 && back > 0; back-- { // other ranks have less
					if s.Holds(back) {
						durable = back
						seen.back++
						break
					}
				}
				m.restore(s, durable)
			} else {
				m.shard.Reset()
				m.losses = m.losses[:0]
			}
			step = durable
			c := commit.New(commit.Options{Env: env.Real(), Shard: m.shard, Every: 1, Sinks: []commit.Sink{s}})
			c.Begin(step, step == 0)
			for range rnd.IntN(12) {
				m.train()
				step++
				m.at[step] = m.copyState()
				hold := rnd.IntN(3) == 0
				if s.Hold(hold); hold {
					seen.held++
				}
				if rnd.IntN(6) == 0 {
					m.dir.FailIn(1 + rnd.IntN(4))
				}
				must(t, c.Seal(step, m.dense))
				_, err := c.Decide([]int64{c.Prepared()})
				must(t, err)
				if rnd.IntN(2) == 0 {
					s.Drain(time.Minute)
				}
				if rnd.IntN(2) == 0 {
					s.Settle(s.Durable())
				}
			}
			if s.Problem() != nil {
				seen.failed++
			}
			durable = s.Durable()
			s.Close()
			m.dir.FailIn(0)
			if failed := s.failed; failed || rnd.IntN(2) == 0 {
				m.dir.CutPower()
			}
			next := m.open()
			if next.Step() < durable {
				t.Fatalf("durable up to step %d, and the log ends at %d", durable, next.Step())
			}
			next.Close()
		}
	}
	t.Logf("%+v", seen)
	if seen.restarts == 0 || seen.held == 0 || seen.lost == 0 || seen.failed == 0 || seen.back == 0 {
		t.Error("something never happened")
	}
}

// TestBusy: two jobs cannot use a folder at once, and the log of another run is refused.
func TestBusy(t *testing.T) {
	m, path := newModel(t, rand.New(rand.NewPCG(1, 2))), t.TempDir()
	o := Options{Env: env.Real(), Path: path, Ranks: 2, Shard: m.shard, Lineage: lineage.ID{1}}
	s, err := Open(o)
	must(t, err)
	if _, err := Open(o); !errors.Is(err, ErrBusy) {
		t.Errorf("a second process: %v", err)
	}
	s.Begin(0, true)
	must(t, s.log.Append(5, nil, nil, nil))
	s.Close()
	if n, none := Ranks(o.Env, path), Ranks(o.Env, t.TempDir()); n != 2 || none != 0 {
		t.Errorf("logs of %d ranks, and of %d in an empty folder", n, none)
	}
	refused := func(what, text string) {
		t.Helper()
		if _, err := Open(o); err == nil || !strings.Contains(err.Error(), text) || what != "another run" && strings.Contains(err.Error(), "remove") {
			t.Errorf("%s: %v", what, err)
		}
	}
	o.Ranks = 3
	refused("other ranks", "2 ranks, and this one has 3")
	o.Lineage[0]++ // it has the number of trainers
	refused("other ranks", "set job.ranks to 2")
	o.Ranks = 2
	refused("another run", "another run")
	o.Lineage[0]--
	o.Rank = 1
	must(t, os.Rename(filepath.Join(path, rowFolder(0)), filepath.Join(path, rowFolder(1))))
	refused("another rank", "the folder of another rank")
}

// TestBroken: a store that cannot be opened takes epochs, keeps none, and says why.
func TestBroken(t *testing.T) {
	m := newModel(t, rand.New(rand.NewPCG(3, 4)))
	s := Broken(Options{Env: env.Real(), Path: "p", Ranks: 1, Shard: m.shard}, ErrBusy)
	c := commit.New(commit.Options{Env: env.Real(), Shard: m.shard, Every: 1, Sinks: []commit.Sink{s}})
	if s.Step() != 0 || !s.Holds(0) {
		t.Errorf("step %d", s.Step())
	}
	s.Lose()
	c.Begin(0, false)
	for step := int64(1); step < 5; step++ {
		m.train()
		must(t, c.Seal(step))
		_, err := c.Decide([]int64{c.Prepared()})
		must(t, err)
	}
	s.Flush()
	s.Drain(time.Minute)
	if s.Durable() != 0 || s.Behind() || !errors.Is(s.Problem(), ErrBusy) {
		t.Errorf("durable up to step %d, %v", s.Durable(), s.Problem())
	}
	c.Close()
	c.Close()
}
