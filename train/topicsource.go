package train

import (
	"fmt"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/stream"
)

// messages is the source of the training data if that is a topic, else nil.
func messages(j *job) *data.Messages {
	m, _ := j.train.(*data.Messages)
	return m
}

// openSamples opens the topic of the training data.
func openSamples(j *job) (stream.Topic, error) {
	name := j.cfg.Data.Train[0]
	if j.o.Samples == nil {
		return nil, fmt.Errorf("data.train: %s: this program opens no topics", name)
	}
	t, err := j.o.Samples(j.env, name)
	if err != nil {
		return nil, fmt.Errorf("data.train: %s: %w", name, err)
	}
	return t, nil
}

// identifyTopic is the identity of the training data, a topic: its name without the brokers, and its partitions.
func identifyTopic(j *job) (id data.Identity, err error) {
	m := messages(j)
	for until := j.env.Now() + patience; ; j.env.Sleep(time.Second) {
		if m.Partitions, err = countPartitions(j); err == nil {
			break
		}
		if !j.world.Later || j.env.Now() >= until { // a job that trains already may outlive the loss of its broker
			return id, config.Errorf("%w", err)
		}
	}
	id.Topic = fmt.Sprintf("%s of %d partitions", config.TopicOf(m.Name()), m.Partitions)
	return id, nil
}

// patience is how long a process that joins a job waits for the broker.
const patience = 2 * time.Minute

// countPartitions is the number of partitions of the topic.
func countPartitions(j *job) (int, error) {
	t, err := openSamples(j)
	if err != nil {
		return 0, err
	}
	defer t.Close()
	n, err := t.Partitions()
	if err != nil {
		return 0, fmt.Errorf("data.train: %s: %w", t.Name(), err)
	}
	if n == 0 {
		return 0, fmt.Errorf("data.train: %s does not exist; make it, or write samples to it with ecrec data produce", t.Name())
	}
	return n, nil
}

// readBounds reads the first offsets of all partitions, and then the next ones.
func readBounds(j *job, words []uint64) error {
	t, err := openSamples(j)
	if err != nil {
		return config.Errorf("%w", err)
	}
	defer t.Close()
	for i := range messages(j).Partitions {
		p, err := t.Open(i)
		if err != nil {
			return config.Errorf("data.train: %s: partition %d: %w", t.Name(), i, err)
		}
		first, next, err := p.Bounds()
		p.Close()
		if err != nil {
			return config.Errorf("data.train: %s: partition %d: %w", t.Name(), i, err)
		}
		words[i], words[messages(j).Partitions+i] = uint64(first), uint64(next)
	}
	return nil
}
