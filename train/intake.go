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

// intake is a rank's use of the topic that the run trains from.
type intake struct {
	ended  bool            // the samples of the topic have ended after the last step done
	undone []feed.Position // the places after steps that are trained again after a loss
}

// setInput sets the place where a run begins, unless it resumes at one. Rank 0 reads the bounds of the topic for all ranks.
func (x *intake) setInput(r *rank) error {
	j := r.job
	if messages(j) == nil || j.o.EvalOnly {
		return nil
	}
	k, partitions := j.cfg.Data.Kafka, messages(j).Partitions
	in, ends := r.history.Input, k.AtEnd == config.AtEndStop
	if at := in.placeAt(r.done); at != nil && len(at.Next) == partitions {
		if !ends {
			in.End = nil
		}
		if !ends || in.End != nil {
			return nil
		}
	}
	words := make([]uint64, 2*partitions)
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
	first, next := offsets(all[0][:partitions]), offsets(all[0][partitions:])
	set := &Input{}
	if ends {
		set.End = next
	}
	if at := in.placeAt(r.done); at != nil && len(at.Next) == partitions {
		set.At = []feed.Position{*at}
	} else {
		from := first
		if k.Begin == config.BeginLast {
			from = next
		}
		set.At = []feed.Position{{Step: r.done, Next: from}}
		r.lineage = r.lineage.BeginAt(from)
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

func offsets(words []uint64) (list []int64) {
	for _, w := range words {
		list = append(list, int64(w))
	}
	return list
}

// topicSpan is the topic as the rank reads it from the step after the last one trained; nil: samples have numbers.
func (x *intake) topicSpan(r *rank) *feed.Topic {
	j := r.job
	m := messages(j)
	if m == nil {
		return nil
	}
	at := r.history.Input.placeAt(r.done)
	if at == nil {
		panic(fmt.Sprintf("train: rank %d has no place in the topic after step %d", r.id, r.done))
	}
	return &feed.Topic{Name: m.Name(), Open: func() (stream.Topic, error) { return openSamples(j) }, Messages: m, From: *at,
		End: r.history.Input.End, Idle: time.Duration(j.cfg.Data.Kafka.Idle), SkipBad: j.cfg.Data.OnError == "skip", Stop: j.o.Stop}
}

// moveInput notes the place in the topic after a step. A step that is trained again after a loss must have the same samples.
func (x *intake) moveInput(r *rank, b *data.Batch) error {
	if b.Next == nil {
		return nil
	}
	in, at := r.history.Input, feed.PositionOf(b.Step, b.Next)
	if i := slices.IndexFunc(x.undone, func(p feed.Position) bool { return p.Step == b.Step }); i >= 0 && !x.undone[i].Same(&at) {
		was := x.undone[i]
		return &data.Error{File: messages(r.job).Name(), What: fmt.Sprintf("the samples of step %d have changed: "+
			"it ended before offsets %v, and now before %v (by partition); was the topic compacted? begin a new run, from a topic that keeps its messages",
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
func (x *intake) noteUndone(in *Input, committed int64) {
	if in == nil {
		return
	}
	for _, at := range in.At {
		if at.Step > committed {
			x.undone = slices.DeleteFunc(x.undone, func(p feed.Position) bool { return p.Step == at.Step })
			x.undone = append(x.undone, at)
		}
	}
	x.undone = slices.DeleteFunc(x.undone, func(p feed.Position) bool { return p.Step <= committed })
}

// endWithoutStep ends the training where the topic has no samples for another step.
func (x *intake) endWithoutStep(r *rank, p *feed.Pipeline) error {
	_, stopped := p.Ends()
	if x.ended = !stopped; stopped {
		r.job.stopped.Store(true)
	}
	if r.done == 0 {
		if stopped {
			return nil
		}
		return config.Errorf("data.train: %s: there are no samples for a step; write some, or set data.kafka.at_end = %q", messages(r.job).Name(),
			config.AtEndWait)
	}
	if err := r.protection.finishRebuild(); err != nil {
		return err
	}
	return r.saveCheckpoint(r.done, true)
}
