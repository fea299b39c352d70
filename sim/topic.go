package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
)

// broker holds the topic of a run. It outlives all processes. It takes records slowly, fails, writes some of them twice, and keeps a part of what a
// dead process had sent and not seen acknowledged.
type broker struct {
	c       *cluster
	draw    *rand.Rand
	faulty  int // of so many writes one fails; 0: none does
	records [][]stream.Record
	lost    int64 // writes that failed
}

// streamSets draws whether a run sends its commits to a topic.
func (s *setting) streamSets(seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, purposeStream))
	if s.streams = r.IntN(3) == 0 && !s.movesAll(); !s.streams {
		return nil
	}
	return []string{"stream.to=file:topic", fmt.Sprint("stream.backlog=", 1+r.IntN(1+r.IntN(100_000)))}
}

func newBroker(c *cluster, seed uint64) *broker {
	r := rand.New(rand.NewPCG(seed, purposeBroker))
	return &broker{c: c, draw: r, faulty: []int{0, 4, 20}[r.IntN(3)]}
}

// openTopic is a process's Options.Topic.
func (p *process) openTopic(env.Env, string) (stream.Topic, error) {
	return topic{p.c.broker, p}, nil
}

// topic is the topic in use by a process; nil: by a reader after the run.
type topic struct {
	*broker
	p *process
}

func (t topic) Name() string             { return "topic" }
func (t topic) Close()                   {}
func (t topic) Keeps() error             { return nil }
func (t topic) Base() stream.Topic       { return stream.NewMemory(t.p) }
func (t topic) Partitions() (int, error) { return len(t.records), nil }

func (t topic) Create(n int) error {
	for len(t.records) < n {
		t.broker.records = append(t.broker.records, nil)
	}
	return nil
}

func (t topic) Open(partition int) (stream.Partition, error) {
	return &topicPartition{topic: t, number: partition}, nil
}

// topicPartition is a partition in use.
type topicPartition struct {
	topic
	number  int
	waiting [][]byte // not acknowledged
}

func (t *topicPartition) Bounds() (first, next int64, err error) {
	return 0, int64(len(t.records[t.number])), nil
}

var errBroker = errors.New("the broker fails")

func (t *topicPartition) fails() bool { return t.faulty > 0 && t.draw.IntN(t.faulty) == 0 }

func (t *topicPartition) Append(records [][]byte) error {
	if t.p.dead {
		return errDead
	}
	if t.fails() {
		t.lost++
		t.waiting = append(t.waiting, records[:t.draw.IntN(len(records)+1)]...)
		return errBroker
	}
	t.waiting = append(t.waiting, records...)
	return nil
}

// slowestBroker is the maximum time of a write.
const slowestBroker = 100 * time.Millisecond

func (t *topicPartition) Sync() error {
	t.p.Sleep(time.Duration(t.draw.Int64N(int64(slowestBroker))))
	if t.p.dead {
		t.keep(t.draw.IntN(len(t.waiting) + 1)) // on their way when the process died
		return errDead
	}
	if t.fails() {
		t.lost++
		return errBroker
	}
	if n := len(t.waiting); t.faulty > 0 && t.draw.IntN(10) == 0 { // an acknowledgement is lost
		waiting := t.waiting
		t.keep(n)
		t.waiting = waiting
	}
	t.keep(len(t.waiting))
	return nil
}

// keep keeps the first n records that wait.
func (t *topicPartition) keep(n int) {
	for _, b := range t.waiting[:n] {
		list := &t.broker.records[t.number]
		*list = append(*list, stream.Record{Offset: int64(len(*list)), Bytes: append([]byte(nil), b...)})
	}
	t.waiting = nil
}

func (t *topicPartition) Read(from int64, _ int, _ time.Duration) ([]stream.Record, error) {
	return t.records[t.number][from:], nil
}

func (t *topicPartition) Trim(int64) error { return nil }

// Close may leave records on their way.
func (t *topicPartition) Close() {
	if t.p != nil && len(t.waiting) > 0 {
		t.keep(t.draw.IntN(len(t.waiting) + 1))
	}
}

// check replays the topic: the model of each cut has the digest of the commit, and the last one is that of the job's end. It returns how many cuts
// there are.
func (b *broker) check(steps int64, digest string) (cuts int, err error) {
	if len(b.records) == 0 {
		return 0, nil
	}
	last, lastDigest := int64(-1), ""
	err = follow.Replay(env.Real(), topic{b, nil}, func(step int64, digest string, _ bool) {
		cuts, last, lastDigest = cuts+1, step, digest
	})
	switch {
	case err != nil:
		return cuts, fmt.Errorf("the topic: %w", err)
	case last != steps:
		return cuts, fmt.Errorf("the topic ends at step %d, the job at step %d", last, steps)
	case lastDigest != digest:
		return cuts, fmt.Errorf("the topic leads to digest %s, the job has %s", lastDigest, digest)
	}
	return cuts, nil
}
