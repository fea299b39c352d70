package train

import (
	"fmt"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/trace"
	"github.com/ecrec/ecrec/stream"
)

// tracks are a rank's lines in the timeline of a job. They are nil if there is no timeline.
type tracks struct{ stages, delayed, planner, dense *trace.Track }

// newTracks adds a rank's tracks to a recorder, which may be nil.
func newTracks(rec *trace.Recorder, process, rank int) tracks {
	line := func(what string) *trace.Track {
		return rec.Track(process, fmt.Sprintf("rank %d %s", rank, what))
	}
	return tracks{stages: line("step"), delayed: line("delayed rows"), planner: line("planner"), dense: line("dense gradients")}
}

// tracedTopic shows the writes to a topic in the timeline.
type tracedTopic struct {
	stream.Topic
	env   env.Env
	track *trace.Track // nil: there is no timeline
}

// Open implements stream.Topic.
func (t *tracedTopic) Open(partition int) (stream.Partition, error) {
	p, err := t.Topic.Open(partition)
	if err != nil || t.track == nil {
		return p, err
	}
	return &tracedPartition{p, t.env, t.track}, nil
}

type tracedPartition struct {
	stream.Partition
	env   env.Env
	track *trace.Track
}

// Append implements stream.Partition.
func (p *tracedPartition) Append(records [][]byte) error {
	began := p.env.Now()
	err := p.Partition.Append(records)
	p.track.Span("append", 0, began, p.env.Now())
	return err
}

// Sync implements stream.Partition.
func (p *tracedPartition) Sync() error {
	began := p.env.Now()
	err := p.Partition.Sync()
	p.track.Span("sync", 0, began, p.env.Now())
	return err
}

// Unanswered implements stream.Timed.
func (p *tracedPartition) Unanswered() time.Duration { return stream.Unanswered(p.Partition) }
