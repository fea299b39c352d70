package feed

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
)

// Position is the place of a run in a topic after a step: the samples of the next step follow from it and the topic alone.
type Position struct {
	Step    int64   `json:"step"`
	Skipped int64   `json:"skipped,omitempty"` // malformed messages before it
	Turn    int64   `json:"turn"`              // the partition that has the next sample
	Next    []int64 `json:"next"`              // by partition: the offset to read next
}

// words packs the position, without its step.
func (p *Position) words() []int64 { return append([]int64{p.Skipped, p.Turn}, p.Next...) }

// positionHead is how many words of a position precede the offsets.
const positionHead = 2

// PositionOf is the position after a step of which Batch.Next is words.
func PositionOf(step int64, words []int64) Position {
	return Position{Step: step, Skipped: words[0], Turn: words[1], Next: slices.Clone(words[positionHead:])}
}

// Same reports whether two positions are of the same samples.
func (p *Position) Same(q *Position) bool {
	return p.Skipped == q.Skipped && p.Turn == q.Turn && slices.Equal(p.Next, q.Next)
}

// Topic is a topic that a run trains from.
type Topic struct {
	Name     string
	Open     func() (stream.Topic, error)
	Messages *data.Messages
	From     Position
	// End is, by partition, the offset at which the samples end. Nil: they have no end.
	End []int64
	// Idle is how long the topic may have no sample for the next step until the run ends; 0: for ever. It is not used with End.
	Idle time.Duration
	// SkipBad leaves malformed messages out and counts them, instead of failing.
	SkipBad bool
	// Stop is called while the topic has no sample, or malformed ones alone. If it returns true, the run ends.
	Stop func() bool
}

const (
	readBytes  = 1 << 20                // of a partition at a time
	readWait   = 200 * time.Millisecond // how long a read waits for a message
	noticeFor  = 10 * time.Second       // after which a wait is reported
	retryEvery = 200 * time.Millisecond // after a read that failed
	retryFor   = 2 * time.Minute        // after which a topic that cannot be read ends the run
)

// ending is why there are no more steps.
type ending int64

const (
	endNone    ending = iota
	endOfData         // all samples are trained, or there was none for Topic.Idle
	endStopped        // Topic.Stop, or the pipeline is closed
)

// intake reads the samples of a topic in order: one of each partition in turn. A partition whose samples have ended leaves
// the turn.
type intake struct {
	*Topic
	env         env.Env
	topic       stream.Topic
	parts       []*topicPart
	turn        int
	skipped     int64
	interrupted func() bool
	notice      func(text string)

	began    time.Duration // when the search for the next sample began
	noticed  bool          // since then
	dropped  bool          // a message had no sample, since the last read
	arrived  time.Duration // when the last message was read
	lastFail error         // of the last read; nil: it succeeded
	failing  time.Duration // when reads began to fail
	unlisted time.Duration // when the offsets of a partition began to be unknown; 0: they are known
}

// topicPart is a partition.
type topicPart struct {
	number  int
	log     stream.Partition
	next    int64 // the offset to read next
	end     int64 // -1: it has none
	records []stream.Record
}

// openIntake opens the topic. A broker that is down is tried again, as in a run that lost a process meanwhile.
func (t *Topic) openIntake(e env.Env, interrupted func() bool) (x *intake, err error) {
	x = &intake{Topic: t, env: e, turn: int(t.From.Turn), skipped: t.From.Skipped, arrived: e.Now(), interrupted: interrupted}
	for {
		x.topic, err = t.Open()
		if err == nil {
			break
		}
		if e.Now()-x.arrived >= retryFor || interrupted() {
			return nil, err
		}
		e.Sleep(retryEvery)
	}
	x.arrived = e.Now()
	for i, next := range t.From.Next {
		p := &topicPart{number: i, next: next, end: -1}
		if t.End != nil {
			p.end = t.End[i]
		}
		if p.log, err = x.topic.Open(i); err != nil {
			x.closeTopic()
			return nil, fmt.Errorf("data.train: %s: partition %d: %w", t.Name, i, err)
		}
		x.parts = append(x.parts, p)
	}
	return x, nil
}

func (x *intake) closeTopic() {
	for _, p := range x.parts {
		p.log.Close()
	}
	x.topic.Close()
}

// placeNow is the place behind the samples that were taken.
func (x *intake) placeNow() Position {
	p := Position{Skipped: x.skipped, Turn: int64(x.turn)}
	for _, part := range x.parts {
		p.Next = append(p.Next, part.next)
	}
	return p
}

// takeBatch makes a batch of at most most samples. It has fewer only if all partitions have ended.
func (x *intake) takeBatch(parser *data.MessageParser, most int) (n int, end ending, err error) {
	parser.Begin(most)
	for n < most {
		end, err = x.takeSample(parser, n)
		if end == endOfData && x.End != nil && n > 0 {
			return n, endNone, nil
		}
		if end != endNone || err != nil { // a part of a step is not trained: the step is the same after a resume
			return 0, end, err
		}
		n++
	}
	return n, endNone, nil
}

// takeSample makes sample i of a batch of the partition whose turn it is.
func (x *intake) takeSample(parser *data.MessageParser, i int) (ending, error) {
	x.began, x.noticed, x.dropped = x.env.Now(), false, false
	for range x.parts {
		p := x.parts[x.turn]
		for {
			end, err := x.awaitRecord(p)
			if end == endOfData && x.End != nil { // of this partition
				break
			}
			if end != endNone || err != nil {
				return end, err
			}
			r := p.records[0]
			p.records, p.next = p.records[1:], r.Offset+1
			isSample, err := parser.Parse(i, r.Bytes)
			switch {
			case err != nil && !x.SkipBad:
				return endNone, &data.Error{File: fmt.Sprintf("%s: partition %d: offset %d", x.Name, p.number, r.Offset),
					What: err.Error() + "; or set data.on_error = \"skip\""}
			case err != nil:
				x.skipped++
			case isSample:
				x.turn = (x.turn + 1) % len(x.parts)
				return endNone, nil
			}
			x.dropped = true
		}
		x.turn = (x.turn + 1) % len(x.parts)
	}
	return endOfData, nil
}

// awaitRecord waits until a partition has a record, or has ended.
func (x *intake) awaitRecord(p *topicPart) (ending, error) {
	quiet := time.Duration(-1) // since when reads get nothing
	for {
		for len(p.records) > 0 && p.records[0].Offset < p.next { // a broker may return the batch around an offset
			p.records = p.records[1:]
		}
		switch {
		case p.end >= 0 && (p.next >= p.end || len(p.records) > 0 && p.records[0].Offset >= p.end):
			p.next, p.records = max(p.next, p.end), nil
			return endOfData, nil
		case len(p.records) > 0:
			x.arrived = x.env.Now()
			return endNone, nil
		case x.interrupted():
			return endStopped, nil
		case x.dropped: // malformed messages may follow each other for long
			if x.dropped = false; x.Stop != nil && x.Stop() {
				return endStopped, nil
			}
			x.reportWait(func() string { return x.explainDropped(p) })
		}
		var err error
		p.records, err = p.log.Read(p.next, readBytes, readWait)
		if err != nil {
			if err = x.explainRead(p, err); err != nil {
				return endNone, err
			}
			quiet = -1
		} else if x.lastFail = nil; len(p.records) > 0 {
			continue
		} else if quiet < 0 {
			quiet = x.env.Now()
		}
		if end, err := x.judgeWait(p, quiet); end != endNone || err != nil {
			return end, err
		}
	}
}

// explainRead returns the error of a read, unless it is worth another try.
func (x *intake) explainRead(p *topicPart, err error) error {
	if errors.As(err, new(*stream.Truncated)) || errors.As(err, new(*stream.Gone)) {
		return &data.Error{File: x.Name, What: fmt.Sprintf("%v; begin a new run", err)}
	}
	if errors.As(err, new(*stream.Trimmed)) {
		return &data.Error{File: x.Name, What: fmt.Sprintf("%v; raise the retention of the topic, or begin a new run", err)}
	}
	if x.lastFail == nil {
		x.failing = x.env.Now()
	}
	x.lastFail = err
	return x.judgeFailure(p, err, x.failing)
}

// judgeFailure returns the error of a partition that fails since some time, or waits for the next try.
func (x *intake) judgeFailure(p *topicPart, err error, since time.Duration) error {
	if x.env.Now()-since >= retryFor {
		return fmt.Errorf("data.train: %s: partition %d: offset %d cannot be read for %v: %w; resume the run once the broker answers",
			x.Name, p.number, p.next, retryFor, err)
	}
	x.env.Sleep(retryEvery)
	return nil
}

// judgeWait is called when a partition has no record: reads get nothing since some time. It reports whether the run ends.
func (x *intake) judgeWait(p *topicPart, quiet time.Duration) (ending, error) {
	if x.Stop != nil && x.Stop() {
		return endStopped, nil
	}
	if x.End == nil && x.Idle > 0 && x.env.Now()-x.arrived >= x.Idle && x.lastFail == nil {
		if isRead, err := x.isRead(p, quiet); isRead || err != nil {
			return endOfData, err
		}
	}
	x.reportWait(func() string { return x.explainWait(p) })
	return endNone, nil
}

// isRead reports whether a partition has no more messages. A read that gets none does not show that: the broker may be late, or a
// new leader is elected. The last offsets of a topic that was compacted may have no messages: it is read if reads get nothing for long.
func (x *intake) isRead(p *topicPart, quiet time.Duration) (bool, error) {
	first, next, err := p.log.Bounds()
	switch {
	case err == nil && next < p.next:
		return false, x.explainRead(p, stream.Missing(p.number, p.next, first, next))
	case err != nil: // reads that get nothing in between are no success
		if x.unlisted == 0 {
			x.unlisted = x.env.Now()
		}
		x.lastFail, x.failing = err, x.unlisted
		return false, x.judgeFailure(p, err, x.unlisted)
	}
	x.unlisted = 0
	return next == p.next || x.env.Now()-quiet >= retryFor, nil
}

// reportWait reports, once, that there is no sample for some time.
func (x *intake) reportWait(explain func() string) {
	if x.env.Now()-x.began >= noticeFor && !x.noticed && x.notice != nil {
		x.noticed = true
		x.notice(explain())
	}
}

// explainDropped describes messages without a sample.
func (x *intake) explainDropped(p *topicPart) string {
	return fmt.Sprintf("data.train: %s: training waits for a sample: messages of partition %d up to offset %d have none; "+
		"%d malformed ones are left out so far",
		x.Name, p.number, p.next-1, x.skipped)
}

// explainWait describes why there is no sample.
func (x *intake) explainWait(p *topicPart) string {
	if x.lastFail != nil {
		return fmt.Sprintf("data.train: %s: partition %d cannot be read, and training waits: %v", x.Name, p.number, x.lastFail)
	}
	text := fmt.Sprintf("data.train: %s: training waits for a message in partition %d, from offset %d on", x.Name, p.number, p.next)
	if p.end >= 0 {
		return text + fmt.Sprintf("; the partition had messages up to offset %d when the run began", p.end-1)
	}
	var others []int
	for _, q := range x.parts {
		if q != p && x.hasMore(q) {
			others = append(others, q.number)
		}
	}
	if len(others) > 0 {
		text += fmt.Sprintf("; the order takes one sample of each partition in turn, and partitions %v have more", others)
	}
	return text
}

func (x *intake) hasMore(q *topicPart) bool {
	if len(q.records) > 0 {
		return true
	}
	_, next, err := q.log.Bounds()
	return err == nil && next > q.next
}
