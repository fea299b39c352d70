package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/follow"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
	"github.com/ecrec/ecrec/train"
)

// topicBytes is the size of all records of a topic.
func topicBytes(to string) (bytes int64, err error) {
	topic, err := openTopic(env.Real(), to)
	if err != nil {
		return 0, err
	}
	defer topic.Close()
	n, err := topic.Partitions()
	for i := range n {
		size, err := partitionBytes(topic, i)
		if err != nil {
			return 0, err
		}
		bytes += size
	}
	return bytes, err
}

func partitionBytes(topic stream.Topic, number int) (bytes int64, err error) {
	p, err := topic.Open(number)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	at, next, err := p.Bounds()
	for err == nil && at < next {
		var list []stream.Record
		list, err = readSome(p, at, 8<<20)
		for _, r := range list {
			bytes, at = bytes+int64(len(r.Bytes)), r.Offset+1
		}
	}
	return bytes, err
}

// readSome returns records from an offset on, at least one.
func readSome(p stream.Partition, at int64, bytes int) ([]stream.Record, error) {
	const patience = 10 * time.Second
	list, err := p.Read(at, bytes, patience)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("bench: the topic has no record at offset %d, nor after it, within %v", at, patience)
	}
	return list, err
}

// rebuildModels measures the time in which the last model is in memory again: from a checkpoint up to the end of a job's first
// step, without the mean time of a step, and from the topic with a commit for each step up to an equal digest.
func (b *continuousRun) rebuildModels() error {
	const more = 4
	cfg, err := b.config(b.last+more, "checkpoint.dir="+b.checkpoint)
	if err != nil {
		return err
	}
	t := &timedSteps{began: time.Now()}
	if _, err := train.Run(env.Real(), cfg, train.Options{Observer: t, Stop: b.o.isStopped, Resume: b.checkpoint, World: b.world(),
		Progress: func(data.Progress) error { return nil }}); err != nil {
		return err
	}
	b.rebuild.loaded = append(b.rebuild.loaded, max(0, t.toFirst()-t.perStep()/1e3))
	topic, err := openTopic(env.Real(), b.topic)
	if err != nil {
		return err
	}
	defer topic.Close()
	dir, began, ended := filepath.Join(b.dir, "followed"), time.Now(), time.Time{}
	defer os.RemoveAll(dir)
	f, err := follow.Open(follow.Options{Env: env.Real(), Topic: topic, Dir: dir, At: int64(b.last), Every: time.Hour,
		Stop: func() bool { return b.o.isStopped() || time.Since(began) > time.Hour }, Report: func(p follow.Progress) {
			if p.Step == int64(b.last) && ended.IsZero() {
				ended = time.Now()
			}
		}})
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Run(); err != nil {
		return err
	}
	if ended.IsZero() {
		return fmt.Errorf("bench: the topic was not followed to step %d", b.last)
	}
	b.rebuild.followed = append(b.rebuild.followed, ended.Sub(began).Seconds())
	return nil
}
