package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/env/virtual"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/stream"
)

// TestStreamOfALaterWorld: a rank that replaces a lost one does not wait for its stream. Once that is open it continues, without all rows
// if readers have the commits before.
func TestStreamOfALaterWorld(t *testing.T) {
	const before, opened, never = 3, -1, 100
	for name, x := range map[string]struct {
		after  int // seals until the broker replies; opened: before Begin
		fails  int // attempts
		behind bool
		all    bool // all rows are sent
	}{
		"open before Begin":           {after: opened},
		"open before the first seal":  {after: 0},
		"open later":                  {after: 3, all: true},
		"readers are behind":          {after: 0, behind: true, all: true},
		"readers are behind at Begin": {after: opened, behind: true, all: true},
		"fails":                       {after: 1, fails: 2, all: true},
		"open after the last seal":    {after: never, all: true},
	} {
		t.Run(name, func(t *testing.T) {
			m, topic := newModel(t, rand.New(rand.NewPCG(1, 9))), stream.NewMemory(env.Real())
			must(t, topic.Create(1))
			answers, fails, session := make(chan bool), 0, uint64(0)
			o := Options{Env: env.Real(), Ranks: 1, Shard: m.shard, Key: "stream.to", Retry: 100 * time.Microsecond,
				Past:  func(step int64) (Past, error) { return Past{[]byte{byte(step), 7}, m.losses}, nil },
				Dense: func() ([]byte, error) { return m.dense.Host(), nil }, Digest: func(int64) string { return "" },
				Stream: func() (Log, error) {
					if session++; session > 1 {
						<-answers
						if fails++; fails <= x.fails {
							return nil, errors.New("planned")
						}
					}
					return stream.OpenLog(stream.LogOptions{Env: env.Real(), Topic: topic, Ranks: 1, Moved: session > 1, Session: session,
						Run: func() lineage.Run { return lineage.Run{Lineage: lineage.ID{1}} }})
				}}
			var c *commit.Committer
			step := int64(0)
			seal := func(s *Store) {
				m.train()
				step++
				must(t, c.Seal(step, m.dense))
				_, err := c.Decide([]int64{c.Prepared()})
				must(t, err)
			}
			s, err := Open(o)
			must(t, err)
			c = commit.New(commit.Options{Env: env.Real(), Shard: m.shard, Every: 1, Sinks: []commit.Sink{s}})
			c.Begin(0, true)
			for range before {
				seal(s)
			}
			s.Drain(time.Minute)
			s.Close()
			if x.behind {
				step++
				m.train()
			}

			s = OpenLater(o)
			isOpen := func() bool {
				s.monitor.Lock()
				defer s.monitor.Unlock()
				return s.fresh != nil
			}
			answer := func() {
				close(answers)
				for !isOpen() {
					time.Sleep(100 * time.Microsecond)
				}
			}
			if x.after == opened {
				answer()
			}
			c = commit.New(commit.Options{Env: env.Real(), Shard: m.shard, Every: 1, Sinks: []commit.Sink{s}})
			s.Lose()
			c.Begin(step, false)
			for i := range 6 {
				if i == x.after {
					answer()
				}
				if seal(s); x.after > i && (s.Durable() != 0 || s.Problem() != nil) {
					t.Errorf("durable up to step %d without a stream, problem %v", s.Durable(), s.Problem())
				}
			}
			if x.after == never {
				time.AfterFunc(10*time.Millisecond, func() { close(answers) })
			}
			s.Complete(step)
			s.Drain(time.Minute)
			if s.Durable() != step || s.Problem() != nil {
				t.Errorf("durable up to step %d of %d: %v", s.Durable(), step, s.Problem())
			}
			if all := absoluteEpochs(t, topic) > 1; all != x.all {
				t.Errorf("all rows are sent: %t", all)
			}
			_, rows := readTopic(t, s, topic)
			checkRows(t, m, rows)
			s.Close()
			s.Close()
		})
	}
}

// absoluteEpochs counts the epochs of a topic that have all rows.
func absoluteEpochs(t *testing.T, topic *stream.Memory) (n int) {
	r, err := stream.OpenReader(stream.ReaderOptions{Env: env.Real(), Topic: topic})
	must(t, err)
	defer r.Close()
	for {
		c, err := r.Next(50 * time.Millisecond)
		must(t, err)
		if c == nil {
			return n
		}
		if c.Epochs[0].Absolute {
			n++
		}
	}
}

// checkRows compares rows with those of a model.
func checkRows(t *testing.T, m *model, rows map[int32][]byte) {
	t.Helper()
	want, n, at := m.copyState().rows, m.shard.RowBytes(), 0
	for slot, word := int64(0), m.shard.TouchedBits(); slot < m.shard.Slots(); slot++ {
		if word[slot>>6]>>(slot&63)&1 == 0 {
			continue
		}
		if got := rows[int32(slot)]; !bytes.Equal(got, want[at:at+n]) {
			t.Fatalf("slot %d is %x, want %x", slot, got, want[at:at+n])
		}
		at += n
	}
}

// TestCloseWhileAStreamOpens: a store that is closed ends its attempts to open the stream.
func TestCloseWhileAStreamOpens(t *testing.T) {
	m := newModel(t, rand.New(rand.NewPCG(1, 9)))
	tried := make(chan bool, 1000)
	s := OpenLater(Options{Env: env.Real(), Ranks: 1, Shard: m.shard, Key: "stream.to", Stream: func() (Log, error) {
		tried <- true
		return nil, errors.New("planned")
	}})
	<-tried
	for s.Problem() == nil {
		time.Sleep(time.Millisecond)
	}
	s.Drain(time.Minute)
	s.Close()
}

// silentLog is a log whose broker may be silent.
type silentLog struct {
	*stream.Log
	unanswered time.Duration
	parts      int // that were appended
}

func (l *silentLog) Unanswered() time.Duration { return l.unanswered }

func (l *silentLog) AppendPart(step int64, slots []int32, rows []byte) error {
	l.parts++
	return l.Log.AppendPart(step, slots, rows)
}

// TestAllRowsWaitForTheBroker: a seal at which all rows are due does not wait for a broker that is silent.
func TestAllRowsWaitForTheBroker(t *testing.T) {
	m, topic := newModel(t, rand.New(rand.NewPCG(1, 9))), stream.NewMemory(env.Real())
	must(t, topic.Create(1))
	log := &silentLog{unanswered: time.Minute}
	s, err := Open(Options{Env: env.Real(), Ranks: 1, Shard: m.shard, Key: "stream.to", Digest: func(int64) string { return "" },
		Stream: func() (Log, error) {
			l, err := stream.OpenLog(stream.LogOptions{Env: env.Real(), Topic: topic, Ranks: 1,
				Run: func() lineage.Run { return lineage.Run{Lineage: lineage.ID{1}} }})
			log.Log = l
			return log, err
		}})
	must(t, err)
	c := commit.New(commit.Options{Env: env.Real(), Shard: m.shard, Every: 1, Sinks: []commit.Sink{s}})
	s.Lose()
	c.Begin(0, false)
	for step := int64(1); step <= 4; step++ {
		if step == 3 {
			if log.parts != 0 || s.Problem() == nil {
				t.Errorf("%d parts were sent to a broker that does not answer; the problem is %v", log.parts, s.Problem())
			}
			log.unanswered = 0
		}
		m.train()
		must(t, c.Seal(step, m.dense))
		_, err := c.Decide([]int64{c.Prepared()})
		must(t, err)
	}
	s.Drain(time.Minute)
	if s.Durable() != 4 || s.Problem() != nil {
		t.Errorf("durable up to step %d of 4: %v", s.Durable(), s.Problem())
	}
	_, rows := readTopic(t, s, topic)
	checkRows(t, m, rows)
	s.Close()
}

// TestLastRowsWaitForTheBroker: a rank that is rebuilt after the last seal waits, when the job ends, for a broker that is down for longer
// than the beginning of a job would wait.
func TestLastRowsWaitForTheBroker(t *testing.T) {
	const last = 3
	m := newModel(t, rand.New(rand.NewPCG(1, 9)))
	m.train()
	s := virtual.New(virtual.Options{Draw: rand.New(rand.NewPCG(1, 10)), MaxTime: time.Hour})
	p := s.NewProcess("rank")
	mustHere := func(err error) { // a panic of a task is the error of Run
		if err != nil {
			panic(err)
		}
	}
	must(t, s.Run(p, func() {
		topic, until := stream.NewMemory(p), time.Duration(0)
		topic.Fault = func(int) error {
			if p.Now() < until {
				return errors.New("planned")
			}
			return nil
		}
		mustHere(topic.Create(1))
		x, err := Open(Options{Env: p, Ranks: 1, Shard: m.shard, Key: "stream.to", Digest: func(int64) string { return "" },
			Stream: func() (Log, error) {
				return stream.OpenLog(stream.LogOptions{Env: p, Topic: topic, Ranks: 1,
					Run: func() lineage.Run { return lineage.Run{Lineage: lineage.ID{1}} }})
			}})
		mustHere(err)
		defer x.Close()
		x.Lose()
		commit.New(commit.Options{Env: p, Shard: m.shard, Every: 1, Sinks: []commit.Sink{x}}).Begin(last, false)
		until = p.Now() + 2*beginFor
		x.Complete(last)
		x.Drain(time.Minute)
		if x.Durable() != last || x.Problem() != nil || p.Now() < until {
			t.Errorf("after %v, durable up to step %d of %d: %v", p.Now(), x.Durable(), last, x.Problem())
		}
	}))
}
