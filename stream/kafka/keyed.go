package kafka

import (
	"context"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ecrec/ecrec/stream"
)

// compactAfter is the least age of a record that the broker drops for a newer one with its key.
const compactAfter = time.Hour

// CreateCompacted makes a topic that keeps the newest record of each key (stream.CreateKeyed).
func (t *topic) CreateCompacted(partitions int) error {
	compact, lag := "compact", strconv.FormatInt(compactAfter.Milliseconds(), 10)
	return t.createWith(partitions, map[string]*string{"cleanup.policy": &compact, "min.compaction.lag.ms": &lag})
}

// AppendKeyed implements stream.KeyedPartition. A record without a value removes its key when the topic is compacted.
func (p *partition) AppendKeyed(records []stream.Keyed) (taken int, err error) {
	err = p.topic.env.Do("send to the broker", func() error {
		for _, r := range records {
			x := &kgo.Record{Topic: p.topic.topic, Partition: p.number, Key: r.Key, Value: r.Value}
			if len(r.Value) == 0 {
				x.Value = nil
			}
			if err := p.takeRoom(sizeOf(x)); err != nil {
				return err
			}
			p.client.Produce(context.Background(), x, p.acknowledged)
			taken++
		}
		return nil
	})
	return taken, err
}

// sizeOf is the size of the content of a record.
func sizeOf(r *kgo.Record) int { return len(r.Key) + len(r.Value) }
