package store

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/internal/env"
)

// TestFullDiskAtTheBeginning: a write fails while all rows are written, when a job begins or after lost rows are rebuilt. They are written at a
// later seal, unless a sync failed.
func TestFullDiskAtTheBeginning(t *testing.T) {
	var seen struct{ recovered, uncut, lasting int }
	for seed := range uint64(60) {
		m, lost := newModel(t, rand.New(rand.NewPCG(seed, 8))), seed%2 == 1
		var c *commit.Committer
		step := int64(0)
		seal := func(s *Store) {
			m.train()
			step++
			m.at[step] = m.copyState()
			must(t, c.Seal(step, m.dense))
			_, err := c.Decide([]int64{c.Prepared()})
			must(t, err)
			s.Drain(time.Minute)
		}
		begin := func(drawn bool) *Store {
			s := m.open()
			c = commit.New(commit.Options{Env: env.Real(), Shard: m.shard, Every: 1, Sinks: []commit.Sink{s}})
			if lost && !drawn {
				s.Lose()
			}
			c.Begin(step, drawn)
			return s
		}
		s := begin(true)
		seal(s)
		seal(s)
		s.Close()
		m.dir.FailIn(1 + int(seed/2)%15)
		s = begin(false)
		seal(s)
		m.dir.FailIn(0)
		if s.Failed() != nil {
			seen.lasting++
			if s.log.Failed() == nil {
				t.Errorf("seed %d: the log takes nothing more after %v", seed, s.Problem())
			}
			s.Close()
			continue
		}
		if s.all {
			seen.recovered++
		}
		if s.uncut {
			seen.uncut++
		}
		for range 3 {
			s.allAfter = 0
			seal(s)
		}
		for i := 0; s.Problem() != nil && i < 1000; i++ { // an append is tried again
			time.Sleep(time.Millisecond)
		}
		s.Drain(time.Minute)
		if s.Durable() != step || s.Problem() != nil {
			t.Errorf("seed %d: durable up to step %d of %d, %v", seed, s.Durable(), step, s.Problem())
		}
		s.Close()
		s = m.open()
		if s.Step() != step {
			t.Fatalf("seed %d: the log ends at step %d of %d", seed, s.Step(), step)
		}
		m.restore(s, step)
		s.Close()
	}
	t.Logf("%+v", seen)
	if seen.recovered == 0 || seen.uncut == 0 || seen.lasting == 0 {
		t.Error("something never happened")
	}
}
