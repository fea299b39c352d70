package sim

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env/virtual"
	"github.com/ecrec/ecrec/stream"
)

// newBases makes the topic of the bases that a follower writes. It outlives the follower's processes.
func (f *follower) newBases() *stream.Memory { return stream.NewMemory(f.s.NewProcess("topic of bases")) }

// fails reports whether a write of a base fails.
func (f *follower) fails() bool { return f.b.faulty > 0 && f.draw.IntN(f.b.faulty) == 0 }

// baseTopic is the topic of bases as a process of a follower uses it. Like that of commits, it takes records slowly, fails, writes some of
// them twice, and keeps a part of those that a process had sent when it died.
type baseTopic struct {
	*stream.Memory
	f *follower
	p *virtual.Process
}

func (t baseTopic) Open(partition int) (stream.Partition, error) {
	if t.p.Dead {
		return nil, errDead
	}
	x, err := t.Memory.Open(partition)
	return &basePartition{Partition: x, f: t.f, p: t.p}, err
}

// basePartition is one of its partitions.
type basePartition struct {
	stream.Partition
	f       *follower
	p       *virtual.Process
	waiting [][]byte // not acknowledged
}

func (t *basePartition) Append(records [][]byte) error {
	if t.p.Dead {
		return errDead
	}
	for _, b := range records {
		t.waiting = append(t.waiting, slices.Clone(b))
	}
	if t.f.fails() {
		return errBroker
	}
	return nil
}

func (t *basePartition) Sync() error {
	t.p.Sleep(time.Duration(t.f.draw.Int64N(int64(slowestBroker))))
	switch {
	case t.p.Dead:
		t.write(t.f.draw.IntN(len(t.waiting) + 1))
		t.waiting = nil
		return errDead
	case t.f.fails():
		return errBroker
	case t.f.b.faulty > 0 && t.f.draw.IntN(10) == 0: // an acknowledgement is lost
		t.write(t.f.draw.IntN(len(t.waiting) + 1))
	}
	t.write(len(t.waiting))
	t.waiting = nil
	return nil
}

// write writes some of the waiting records. A topic in memory does not fail.
func (t *basePartition) write(n int) {
	if err := t.Partition.Append(t.waiting[:n]); err != nil {
		panic(err)
	}
	if err := t.Partition.Sync(); err != nil {
		panic(err)
	}
}

func (t *basePartition) Read(from int64, bytes int, wait time.Duration) ([]stream.Record, error) {
	if t.p.Dead {
		return nil, errDead
	}
	return t.Partition.Read(from, bytes, wait)
}

func (t *basePartition) Trim(before int64) error {
	if t.p.Dead {
		return errDead
	}
	return t.Partition.Trim(before)
}

// dropFolder loses the folder of the follower, as with its machine. The next process begins with a base, or with the beginning of the topic.
func (f *follower) dropFolder() error {
	f.lostFolders++
	f.published = -1
	return os.RemoveAll(f.o.Dir)
}

// readAnew follows the topic with a new follower, which is not killed and writes no bases. It begins with the newest base, if the topic has
// been trimmed. It must get the model of the last step.
func (f *follower) readAnew(p *virtual.Process, steps int64) error {
	o := f.o
	o.Env, o.Topic, o.Dir, o.Trim = p, readTopic{f, p}, o.Dir+"-anew", false
	defer os.RemoveAll(o.Dir)
	until := f.s.Now() + lastRead
	o.Stop = func() bool { return f.s.Now() > until }
	var wrong error
	o.Report = func(x follow.Progress) {
		if x.Digest != "" {
			wrong = cmp.Or(wrong, f.b.checkCut(x.Step, x.Digest))
		}
	}
	last := int64(-1)
	g, err := follow.Open(o)
	if err == nil {
		err = g.Run()
		last = g.Step()
		g.Close()
	}
	if err = cmp.Or(wrong, f.b.checkEnd(err, last, steps, (*partitionLog).isShort)); err != nil {
		return fmt.Errorf("a new follower: %w", err)
	}
	return nil
}
