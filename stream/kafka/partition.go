package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
)

// partition is one rank's or reader's use of a partition, with connections of its own.
type partition struct {
	topic    *topic
	client   *kgo.Client
	number   int32
	consumed int64 // the offset that the client reads next; -1: it reads nothing

	answers *answers
	idle    time.Duration // since when reads get nothing; 0: the last one got records
	readAt  time.Duration // when the last one ended

	monitor env.Monitor
	waiting int           // records that are not acknowledged
	bytes   int           // of them
	since   time.Duration // of the last acknowledgement, or of the first record that waits for one
	err     error         // after which the client takes nothing more
}

// Bounds implements stream.Partition.
func (p *partition) Bounds() (first, next int64, err error) {
	err = p.topic.do(func(ctx context.Context) error {
		for _, x := range []struct {
			list func(context.Context, ...string) (kadm.ListedOffsets, error)
			to   *int64
		}{{p.topic.admin.ListStartOffsets, &first}, {p.topic.admin.ListEndOffsets, &next}} {
			all, err := x.list(ctx, p.topic.topic)
			if err != nil {
				return err
			}
			o, ok := all.Lookup(p.topic.topic, p.number)
			if !ok || o.Err != nil {
				return errors.Join(o.Err, fmt.Errorf("topic %s has no partition %d", p.topic.topic, p.number))
			}
			*x.to = o.Offset
		}
		return nil
	})
	return first, next, err
}

// Append implements stream.Partition.
func (p *partition) Append(records [][]byte) error {
	return p.topic.env.Do("send to the broker", func() error {
		for _, b := range records {
			if err := p.takeRoom(len(b)); err != nil {
				return err
			}
			r := &kgo.Record{Topic: p.topic.topic, Partition: p.number, Value: bytes.Clone(b)} // the client needs it until it is acknowledged
			p.client.Produce(context.Background(), r, p.acknowledged)
		}
		return nil
	})
}

// mostBuffered is how many bytes a client may hold that are not acknowledged.
const mostBuffered = 64 << 20

// takeRoom waits until the client may hold another record, at most as long as for an acknowledgement.
func (p *partition) takeRoom(bytes int) error {
	p.monitor.Lock()
	defer p.monitor.Unlock()
	for until := p.topic.env.Now() + ackFor; p.bytes > 0 && p.bytes+bytes > mostBuffered && p.err == nil; {
		if p.topic.env.Now() >= until {
			return p.noAcknowledgement()
		}
		p.monitor.WaitUntil(until)
	}
	if p.err != nil {
		return p.err
	}
	if p.waiting == 0 {
		p.since = p.topic.env.Now()
	}
	p.waiting, p.bytes = p.waiting+1, p.bytes+bytes
	return nil
}

// Unanswered implements stream.Timed.
func (p *partition) Unanswered() time.Duration {
	p.monitor.Lock()
	defer p.monitor.Unlock()
	if p.waiting == 0 {
		return 0
	}
	return p.topic.env.Now() - p.since
}

func (p *partition) noAcknowledgement() error {
	return fmt.Errorf("%d records are not acknowledged within %v: is the broker down, or short of replicas?", p.waiting, ackFor)
}

// acknowledged notes that a record was acknowledged, or will never be.
func (p *partition) acknowledged(r *kgo.Record, err error) {
	p.monitor.Lock()
	defer p.monitor.Unlock()
	if err != nil && p.err == nil {
		p.err = &stream.Final{Err: explain(err, sizeOf(r))}
	}
	p.waiting, p.bytes, p.since = p.waiting-1, p.bytes-sizeOf(r), p.topic.env.Now()
	p.monitor.Wake()
}

// explain adds advice to an error of a broker.
func explain(err error, bytes int) error {
	switch {
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return fmt.Errorf("records, such as one of %d bytes, are too large for the broker: raise max.message.bytes of the topic to %d: %w", bytes, 4*stream.MaxPayload, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("the broker does not let this user write to the topic: %w", err)
	case errors.Is(err, kerr.OutOfOrderSequenceNumber), errors.Is(err, kerr.UnknownProducerID), errors.Is(err, kerr.InvalidProducerEpoch):
		return fmt.Errorf("the broker has lost records that it acknowledged: %w", err)
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return fmt.Errorf("the topic is gone: %w", err)
	}
	return err
}

// Sync implements stream.Partition.
func (p *partition) Sync() error {
	p.monitor.Lock()
	defer p.monitor.Unlock()
	for until := p.topic.env.Now() + ackFor; p.waiting > 0 && p.err == nil; {
		if p.topic.env.Now() >= until {
			return p.noAcknowledgement()
		}
		p.monitor.WaitUntil(until)
	}
	return p.err
}

// Read implements stream.Partition.
func (p *partition) Read(from int64, bytes int, wait time.Duration) (list []stream.Record, err error) {
	if p.consumed != from {
		p.stopReading()
		first, next, err := p.Bounds()
		if err != nil {
			return nil, err
		}
		if from < first || from > next {
			return nil, stream.Missing(int(p.number), from, first, next)
		}
		p.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{p.topic.topic: {p.number: kgo.NewOffset().At(from)}})
		p.consumed = from
		wait = max(wait, time.Second) // for the connection
		if from == next {
			wait = 0
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(wait, 10*time.Millisecond))
	defer cancel()
	var fetches kgo.Fetches
	_ = p.topic.env.Do("read from the broker", func() error {
		fetches = p.client.PollFetches(ctx)
		return nil
	})
	for _, e := range fetches.Errors() {
		if err := p.judgeFetch(e.Err, from); err != nil {
			p.stopReading()
			return nil, err
		}
	}
	fetches.EachRecord(func(r *kgo.Record) {
		if r.Attrs.IsControl() {
			r.Value = nil
		}
		if r.Offset >= from {
			list = append(list, stream.Record{Offset: r.Offset, Time: r.Timestamp.UnixMilli(), Key: r.Key, Bytes: r.Value})
		}
	})
	if n := len(list); n > 0 {
		p.consumed = list[n-1].Offset + 1
	}
	return list, p.checkAnswers(len(list) > 0)
}

// judgeFetch returns the error of a read from an offset, nil if the client repeats it.
func (p *partition) judgeFetch(err error, from int64) error {
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange), errors.As(err, new(*kgo.ErrDataLoss)):
		first, next, err := p.Bounds()
		return errors.Join(err, stream.Missing(int(p.number), from, first, next))
	case errors.Is(err, kerr.UnknownTopicID): // which the client repeats for some seconds, and then for ever
		return &stream.Gone{Err: err}
	case errors.Is(err, context.DeadlineExceeded), kerr.IsRetriable(err):
		return nil
	}
	return explain(err, 0)
}

// stopReading ends what the client reads. The next Read begins anew.
func (p *partition) stopReading() {
	if p.consumed >= 0 {
		p.client.RemoveConsumePartitions(map[string][]int32{p.topic.topic: {p.number}})
	}
	p.consumed = -1
}

// silentAfter is how long a broker may leave reads without an answer until that is an error.
const silentAfter = 10 * time.Second

// checkAnswers returns a Silent if the reads in a row get no answer.
func (p *partition) checkAnswers(got bool) error {
	now := p.topic.env.Now()
	if got || p.idle == 0 || now-p.readAt > readPause {
		p.idle = now
	}
	if p.readAt = now; got {
		p.idle = 0
		return nil
	}
	at, err := p.answers.newest()
	if silent := now - max(p.idle, at); silent >= silentAfter {
		return &stream.Silent{For: silent, Err: err}
	}
	return nil
}

// readPause is how long after a read the client may not have asked the broker.
const readPause = 2 * time.Second

// Trim implements stream.Partition.
func (p *partition) Trim(before int64) error {
	return p.topic.do(func(ctx context.Context) error {
		all, err := p.topic.admin.DeleteRecords(ctx, kadm.Offsets{p.topic.topic: {p.number: kadm.Offset{Topic: p.topic.topic,
			Partition: p.number, At: before}}})
		if err == nil {
			err = all.Error()
		}
		return err
	})
}

// Close implements stream.Partition.
func (p *partition) Close() { p.client.Close() }
