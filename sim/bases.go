package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/env/virtual"
	"github.com/ecrec/ecrec/stream"
)

// errBroker is the error of a broker, of either topic. slowestBroker is the maximum time of a write.
var errBroker = errors.New("the broker fails")

const slowestBroker = 100 * time.Millisecond

// basesLog is the topic of the bases that a follower writes. It outlives the follower's processes. Like the topic of commits, it takes
// records slowly, fails, writes some of them twice, and keeps a part of those that a process had sent when it died.
type basesLog struct {
	*stream.Memory
	draw   *rand.Rand
	faulty int // as in broker
}

func (l *basesLog) isFaulty() bool { return l.faulty > 0 && l.draw.IntN(l.faulty) == 0 }

// baseTopic is that topic as a process of a follower uses it.
type baseTopic struct {
	*basesLog
	p *virtual.Process
}

func (t baseTopic) Open(partition int) (stream.Partition, error) {
	if t.p.Dead {
		return nil, errDead
	}
	x, err := t.Memory.Open(partition)
	return &basePartition{Partition: x, topic: t}, err
}

// basePartition is one of its partitions.
type basePartition struct {
	stream.Partition
	topic   baseTopic
	waiting [][]byte // not acknowledged
}

func (t *basePartition) Append(records [][]byte) error {
	if t.topic.p.Dead {
		return errDead
	}
	for _, b := range records {
		t.waiting = append(t.waiting, slices.Clone(b))
	}
	if t.topic.isFaulty() {
		return errBroker
	}
	return nil
}

func (t *basePartition) Sync() error {
	t.topic.p.Sleep(time.Duration(t.topic.draw.Int64N(int64(slowestBroker))))
	switch {
	case t.topic.p.Dead:
		t.writeWaiting(t.topic.draw.IntN(len(t.waiting) + 1))
		t.waiting = nil
		return errDead
	case t.topic.isFaulty():
		return errBroker
	case t.topic.faulty > 0 && t.topic.draw.IntN(10) == 0: // an acknowledgement is lost
		t.writeWaiting(t.topic.draw.IntN(len(t.waiting) + 1))
	}
	t.writeWaiting(len(t.waiting))
	t.waiting = nil
	return nil
}

// writeWaiting writes some of the waiting records. A topic in memory does not fail.
func (t *basePartition) writeWaiting(n int) {
	if err := t.Partition.Append(t.waiting[:n]); err != nil {
		panic(err)
	}
	if err := t.Partition.Sync(); err != nil {
		panic(err)
	}
}

func (t *basePartition) Read(from int64, bytes int, wait time.Duration) ([]stream.Record, error) {
	if t.topic.p.Dead {
		return nil, errDead
	}
	return t.Partition.Read(from, bytes, wait)
}

func (t *basePartition) Trim(before int64) error {
	if t.topic.p.Dead {
		return errDead
	}
	return t.Partition.Trim(before)
}

// Close leaves some records on their way, as after an attempt that failed.
func (t *basePartition) Close() {
	t.writeWaiting(t.topic.draw.IntN(len(t.waiting) + 1))
	t.waiting = nil
	t.Partition.Close()
}
