package stream

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/env/virtual"
	"github.com/ecrec/ecrec/lineage"
)

// slowTopic is a topic behind a slow link: a read from another offset than the next one takes some time, over several calls.
type slowTopic struct {
	Topic
	env   env.Env
	delay time.Duration
}

func (s *slowTopic) Open(partition int) (Partition, error) {
	p, err := s.Topic.Open(partition)
	return &slowPartition{Partition: p, topic: s, next: -1}, err
}

type slowPartition struct {
	Partition
	topic *slowTopic
	next  int64         // that is read, or was asked for
	due   time.Duration // when its record arrives
}

func (p *slowPartition) Read(from int64, bytes int, wait time.Duration) ([]Record, error) {
	e := p.topic.env
	if from != p.next {
		p.next, p.due = from, e.Now()+p.topic.delay
	}
	e.Sleep(max(0, min(wait, p.due-e.Now())))
	if e.Now() < p.due {
		return nil, nil
	}
	list, err := p.Partition.Read(from, bytes, 0)
	if n := len(list); n > 0 {
		p.next = list[n-1].Offset + 1
	}
	return list, err
}

// TestSlowTail: records that are late are not missing ones. A topic of another run is refused however slow it is, and one that returns
// nothing is an error.
func TestSlowTail(t *testing.T) {
	topic := NewMemory(env.Real())
	must(t, topic.Create(1))
	w := &writer{t: t, rnd: rand.New(rand.NewPCG(1, 1)), at: map[int64]map[int32]uint64{0: {}}}
	w.open(topic, 1, lineage.Run{Lineage: lineage.ID{1}}, 0)
	w.append(2, w.train(0, 2))
	for delay, want := range map[time.Duration]string{0: "another run", 5 * time.Second: "another run", time.Minute: "returns nothing"} {
		err := virtual.Run(1, func(e env.Env) error {
			l, err := OpenLog(LogOptions{Env: e, Topic: &slowTopic{topic, e, delay}, Ranks: 1,
				Run: func() lineage.Run { return lineage.Run{Lineage: lineage.ID{2}} }})
			if err == nil {
				err = l.CutTo(0)
				l.Close()
			}
			return err
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("after %v: %v, want %q", delay, err, want)
		}
	}
}
