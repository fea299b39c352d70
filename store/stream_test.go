package store

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/commit/sinktest"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/stream"
)

// TestRulesOfStreams runs the conformance suite of sinks with a log that is a stream, whose topic fails now and then. The rows are those of
// a reader.
func TestRulesOfStreams(t *testing.T) {
	topics := map[commit.Sink]*stream.Memory{}
	sinktest.Test(t, sinktest.Config{
		Open: func(o commit.SinkOptions) (commit.Sink, error) {
			topic := stream.NewMemory(o.Env)
			r := rand.New(rand.NewPCG(1, uint64(o.Rank)))
			topic.Fault = func(int) error {
				if r.IntN(8) == 0 {
					return errors.New("planned")
				}
				return nil
			}
			must(t, topic.Create(1))
			s, err := Open(Options{Env: o.Env, Rank: o.Rank, Ranks: 1, Shard: o.Shard, Key: "stream.to", Retry: time.Millisecond,
				Past: func(int64) (Past, error) { return Past{}, nil }, Dense: func() ([]byte, error) { return nil, nil },
				Digest: func(int64) string { return "" }, Stream: func() (Log, error) {
					return stream.OpenLog(stream.LogOptions{Env: o.Env, Topic: topic, Ranks: 1,
						Run: func() lineage.Run { return lineage.Run{Lineage: lineage.ID{1}} }})
				}})
			if err == nil {
				topics[s] = topic
			}
			return s, err
		},
		Rows: func(t *testing.T, sink commit.Sink) map[int32][]byte {
			_, rows := readTopic(t, sink.(*Store), topics[sink])
			return rows
		},
		Dense: func(t *testing.T, sink commit.Sink) []byte {
			extra, _ := readTopic(t, sink.(*Store), topics[sink])
			_, dense, _, _, err := readExtra(extra)
			must(t, err)
			return dense
		},
	})
}

// readTopic reads the model in a topic.
func readTopic(t *testing.T, s *Store, topic *stream.Memory) (extra []byte, rows map[int32][]byte) {
	s.Drain(time.Minute)
	for i := 0; s.Problem() != nil && i < 1000; i++ {
		time.Sleep(time.Millisecond)
		s.Drain(time.Minute)
	}
	r, err := stream.OpenReader(stream.ReaderOptions{Env: env.Real(), Topic: topic})
	must(t, err)
	defer r.Close()
	rows = map[int32][]byte{}
	for {
		c, err := r.Next(50 * time.Millisecond)
		must(t, err)
		if c == nil {
			return extra, rows
		}
		e := c.Epochs[0]
		if extra = e.Extra; e.Absolute {
			clear(rows)
		}
		n := s.o.Shard.RowBytes()
		for i, slot := range e.Slots {
			rows[slot] = e.Rows[i*n : (i+1)*n]
		}
	}
}

// TestStreamThatFails: after an error that ends the use of a partition it is opened again, and a later seal sends all rows.
func TestStreamThatFails(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		m, topic := newModel(t, rnd), stream.NewMemory(env.Real())
		must(t, topic.Create(1))
		var session atomic.Uint64
		var left atomic.Int64 // appends and syncs until the next failure; below 0: no failure
		topic.Fault = func(int) error {
			if left.Add(-1) == 0 {
				return &stream.Final{Err: errors.New("planned")}
			}
			return nil
		}
		s, err := Open(Options{Env: env.Real(), Ranks: 1, Shard: m.shard, Key: "stream.to", Retry: 100 * time.Microsecond,
			Past:  func(step int64) (Past, error) { return Past{[]byte{byte(step), 7}, m.losses}, nil },
			Dense: func() ([]byte, error) { return m.dense.Host(), nil }, Digest: func(int64) string { return "" },
			Stream: func() (Log, error) {
				return stream.OpenLog(stream.LogOptions{Env: env.Real(), Topic: topic, Ranks: 1, Moved: true,
					Run: func() lineage.Run { return lineage.Run{Lineage: lineage.ID{1}} }, Session: session.Add(1)})
			}})
		must(t, err)
		c := commit.New(commit.Options{Env: env.Real(), Shard: m.shard, Every: 1, Sinks: []commit.Sink{s}})
		c.Begin(0, true)
		for step := int64(1); step <= 40 || s.Durable() < step-1; step++ {
			if step%10 == 1 && step < 40 {
				left.Store(1 + rnd.Int64N(4))
			}
			m.train()
			must(t, c.Seal(step, m.dense))
			_, err := c.Decide([]int64{c.Prepared()})
			must(t, err)
			if rnd.IntN(2) == 0 || step > 40 {
				s.Drain(time.Minute)
				time.Sleep(time.Millisecond)
			}
			if step == 10_000 {
				t.Fatalf("the stream stays at step %d: %v", s.Durable(), s.Problem())
			}
		}
		_, rows := readTopic(t, s, topic)
		checkRows(t, m, rows)
		s.Close()
	}
}
