package train

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/stream"
	"github.com/ecrec/ecrec/train/feed"
)

// Input is the place of a run in the topic that it trains from. It is part of the history, so that commits and checkpoints have it.
type Input struct {
	// End is, by partition, the offset at which the samples end, with data.kafka.at_end = "stop". It is that of the start of the run.
	End []int64 `json:"end,omitempty"`
	// At are the places after some steps, ascending. The last one is that after the newest step.
	At []feed.Position `json:"at"`
}

// at is the place after a step, nil if it is unknown.
func (in *Input) at(step int64) *feed.Position {
	if in == nil {
		return nil
	}
	for i := range in.At {
		if in.At[i].Step == step {
			return &in.At[i]
		}
	}
	return nil
}

// upTo is the input with the place after one step.
func (in *Input) upTo(step int64) *Input {
	if in == nil {
		return nil
	}
	past := &Input{End: in.End}
	if at := in.at(step); at != nil {
		past.At = []feed.Position{*at}
	}
	return past
}

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
	for until := j.env.Now() + patience; ; j.env.Sleep(time.Second) {
		if j.partitions, err = countPartitions(j); err == nil {
			break
		}
		if !j.world.Later || j.env.Now() >= until { // a job that trains already may outlive the loss of its broker
			return id, config.Errorf("%w", err)
		}
	}
	id.Topic = fmt.Sprintf("%s of %d partitions", config.TopicOf(j.cfg.Data.Train[0]), j.partitions)
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

// setInput sets the place where a run begins, unless it resumes at one. Rank 0 reads the bounds of the topic for all ranks.
func (r *rank) setInput() error {
	j := r.job
	if messages(j) == nil || j.o.EvalOnly {
		return nil
	}
	k := j.cfg.Data.Kafka
	in, ends := r.history.Input, k.AtEnd == config.AtEndStop
	if at := in.at(r.done); at != nil && len(at.Next) == j.partitions {
		if !ends {
			in.End = nil
		}
		if !ends || in.End != nil {
			return nil
		}
	}
	words := make([]uint64, 2*j.partitions)
	var err error
	if r.id == 0 {
		err = readBounds(j, words)
	}
	all, agreed := r.conns.ctl.agree(err, words)
	if agreed != nil {
		if failed := (*failedSave)(nil); errors.As(agreed, &failed) && r.id != 0 {
			return &refused{failed.cause}
		}
		return errors.Join(err, agreedLoss(agreed))
	}
	first, next := offsets(all[0][:j.partitions]), offsets(all[0][j.partitions:])
	set := &Input{}
	if ends {
		set.End = next
	}
	if at := in.at(r.done); at != nil && len(at.Next) == j.partitions {
		set.At = []feed.Position{*at}
	} else {
		from := first
		if k.Begin == config.BeginLast {
			from = next
		}
		set.At = []feed.Position{{Step: r.done, Next: from}}
	}
	r.history.Input = set
	return nil
}

// agreedLoss is the error of an exchange, unless it is a rank's own.
func agreedLoss(err error) error {
	if errors.As(err, new(*failedSave)) {
		return nil
	}
	return err
}

// readBounds reads the first offsets of all partitions, and then the next ones.
func readBounds(j *job, words []uint64) error {
	t, err := openSamples(j)
	if err != nil {
		return config.Errorf("%w", err)
	}
	defer t.Close()
	for i := range j.partitions {
		p, err := t.Open(i)
		if err != nil {
			return config.Errorf("data.train: %s: partition %d: %w", t.Name(), i, err)
		}
		first, next, err := p.Bounds()
		p.Close()
		if err != nil {
			return config.Errorf("data.train: %s: partition %d: %w", t.Name(), i, err)
		}
		words[i], words[j.partitions+i] = uint64(first), uint64(next)
	}
	return nil
}

func offsets(words []uint64) (list []int64) {
	for _, w := range words {
		list = append(list, int64(w))
	}
	return list
}

// topicSpan is the topic as the rank reads it from the step after the last one trained; nil: samples have numbers.
func (r *rank) topicSpan() *feed.Topic {
	j := r.job
	m := messages(j)
	if m == nil {
		return nil
	}
	at := r.history.Input.at(r.done)
	if at == nil {
		panic(fmt.Sprintf("train: rank %d has no place in the topic after step %d", r.id, r.done))
	}
	return &feed.Topic{Name: m.Name(), Open: func() (stream.Topic, error) { return openSamples(j) }, Messages: m, From: *at,
		End: r.history.Input.End, Idle: time.Duration(j.cfg.Data.Kafka.Idle), SkipBad: j.cfg.Data.OnError == "skip", Stop: j.o.Stop}
}

// moveInput notes the place in the topic after a step. A step that is trained again after a loss must have the same samples.
func (r *rank) moveInput(b *data.Batch) error {
	if b.Next == nil {
		return nil
	}
	in, at := r.history.Input, feed.PositionOf(b.Step, b.Next)
	if i := slices.IndexFunc(r.undone, func(p feed.Position) bool { return p.Step == b.Step }); i >= 0 && !r.undone[i].Same(&at) {
		was := r.undone[i]
		return &data.Error{File: messages(r.job).Name(), What: fmt.Sprintf(
			"the samples of step %d have changed: it ended before offsets %v, and now before %v (by partition); was the topic compacted? begin a new run, from a topic that keeps its messages",
			b.Step, was.Next, at.Next)}
	}
	oldest := r.done - 1
	if p := r.protection; p != nil {
		oldest = min(oldest, p.commits.Committed())
	}
	in.At = slices.DeleteFunc(in.At, func(p feed.Position) bool { return p.Step < oldest })
	in.At = append(in.At, at)
	messages(r.job).SetSkipped(at.Skipped)
	return nil
}

// noteUndone keeps the places after the steps that are trained again after a loss.
func (r *rank) noteUndone(committed int64) {
	if r.history.Input == nil {
		return
	}
	for _, at := range r.history.Input.At {
		if at.Step > committed {
			r.undone = slices.DeleteFunc(r.undone, func(p feed.Position) bool { return p.Step == at.Step })
			r.undone = append(r.undone, at)
		}
	}
	r.undone = slices.DeleteFunc(r.undone, func(p feed.Position) bool { return p.Step <= committed })
}

// endWithoutStep ends the training where the topic has no samples for another step.
func (r *rank) endWithoutStep(p *feed.Pipeline) error {
	_, stopped := p.Ends()
	if r.ended = !stopped; stopped {
		r.job.stopped.Store(true)
	}
	if r.done == 0 {
		if stopped {
			return nil
		}
		return config.Errorf("data.train: %s: there are no samples for a step; write some, or set data.kafka.at_end = \"wait\"", messages(r.job).Name())
	}
	if err := r.protection.finishRebuild(); err != nil {
		return err
	}
	return r.saveCheckpoint(r.done, true)
}
