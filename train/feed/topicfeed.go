package feed

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/transport"
)

// One rank reads the topic, makes the samples of a step, and sends each trainer its slice. All ranks get the position after
// the step, which is part of every commit. So the broker sends each message once for any number of ranks, and all ranks end
// at the same step.

// Notice is the error of Next while there is no slice yet, with the reason. Next is called again.
type Notice struct{ Text string }

func (n *Notice) Error() string { return n.Text }

// mostNotices bounds the notices of a pipeline.
const mostNotices = 16

// Kinds of a header.
const (
	headSlice  = iota
	headEnd    // the steps have ended; the ending follows
	headFailed // the topic cannot be read
	headNotice // to rank 0: a notice follows, of some bytes
)

// header is sent before each slice: its kind, the samples of the step, the sizes of the slice, the position.
type header []uint64

const (
	headKind = iota
	headGlobal
	headSizes
	headPosition = headSizes + len(sizes{})
)

func newHeader(partitions int) header { return make(header, headPosition+positionHead+partitions) }

// topicLink is common to the rank that reads and the others.
type topicLink struct {
	span    Span
	env     env.Env
	ep      transport.Endpoint
	tags    transport.Tag
	step    int64
	stopped bool
}

// Stopped reports whether the steps ended because the job was stopped. It is valid after io.EOF.
func (l *topicLink) Stopped() bool { return l.stopped }

// FeedTopic yields this rank's slices of a topic, and sends those of all others. A rank that is no trainer gets slices
// without samples. Trainer i is rank i.
func FeedTopic(e env.Env, s Span, ep transport.Endpoint, channel uint16, trainers int) Batches {
	b := &topicFeed{topicLink: topicLink{span: s, env: e, ep: ep, tags: tags(channel), step: s.First - 1}, trainers: trainers,
		ready: env.NewQueue[*topicStep](e, "topic ready", topicAhead+1+mostNotices), free: env.NewQueue[*topicStep](e, "topic free", topicAhead),
		done: env.NewEvent(e, "topic reader")}
	for range topicAhead {
		b.free.Put(new(topicStep))
	}
	e.Go("topic reader", b.readAll)
	return b
}

// topicAhead is how many steps are read ahead, beside those of the pipeline.
const topicAhead = 3

// topicFeed is the rank that reads.
type topicFeed struct {
	topicLink
	trainers    int
	ready, free *env.Queue[*topicStep]
	done        *env.Event
	closed      atomic.Bool

	requests []transport.Request
	slices   []*data.Batch // by trainer, but this rank's
	own      []*data.Batch // released
	over     *topicStep    // the end, or the error
}

// topicStep is the samples of a step.
type topicStep struct {
	parser   *data.MessageParser
	n        int
	position Position
	end      ending
	err      error
	notice   string
}

// readAll reads the topic.
func (b *topicFeed) readAll() {
	defer b.done.Set(nil)
	t := b.span.Topic
	x, err := t.openIntake(b.env, b.closed.Load)
	if err != nil {
		b.ready.Put(&topicStep{err: err})
		return
	}
	defer x.closeTopic()
	notices := 0
	x.notice = func(text string) {
		if notices++; notices <= mostNotices {
			b.ready.Put(&topicStep{notice: text})
		}
	}
	for step := b.span.First; step <= b.span.Last; step++ {
		f, ok := b.free.Get()
		if !ok {
			return
		}
		if f.parser == nil {
			if f.parser, err = t.Messages.NewParser(); err != nil {
				b.ready.Put(&topicStep{err: err})
				return
			}
		}
		if f.n, f.end, err = x.takeBatch(f.parser, b.span.Order.Batch); err != nil {
			b.ready.Put(&topicStep{err: fmt.Errorf("step %d: %w", step, err)})
			return
		}
		f.position = x.placeNow()
		if !b.ready.Put(f) || f.end != endNone {
			return
		}
	}
	b.ready.Put(&topicStep{end: endOfData})
}

// Next sends the next step's slices. It returns when all ranks have received them.
func (b *topicFeed) Next() (*data.Batch, error) {
	if b.over != nil {
		return nil, io.EOF
	}
	f, ok := b.ready.Get()
	if !ok {
		f = &topicStep{end: endStopped}
	}
	h := newHeader(len(b.span.Topic.From.Next))
	switch {
	case f.notice != "":
		return nil, b.sendNotice(h, f.notice)
	case f.err != nil || f.end != endNone:
		b.over, b.stopped = f, f.end == endStopped
		h[headKind], h[headGlobal] = headEnd, uint64(f.end)
		if f.err != nil {
			h[headKind] = headFailed
		}
		b.sendToAll(func(int) []byte { return kernels.BytesOf(h) })
		// A rank that is lost meanwhile does not matter here: the steps have ended for the others, which plan what they have. If this rank gave
		// up instead, its messages would not be those that they expect. The next exchange reports the loss.
		_ = b.waitSent()
		if f.err != nil {
			return nil, f.err
		}
		return nil, io.EOF
	}
	b.step++
	own, err := b.sendSlices(f, h)
	b.free.Put(f)
	return own, err
}

// sendSlices sends each trainer its slice, and returns this rank's.
func (b *topicFeed) sendSlices(f *topicStep, h header) (*data.Batch, error) {
	h[headKind], h[headGlobal] = headSlice, uint64(f.n)
	next := f.position.words()
	for i, w := range next {
		h[headPosition+i] = uint64(w)
	}
	me, own := b.ep.Rank(), new(data.Batch)
	if n := len(b.own); n > 0 {
		own, b.own = b.own[n-1], b.own[:n-1]
	}
	for len(b.slices) < b.trainers {
		b.slices = append(b.slices, new(data.Batch))
	}
	own.N, own.Labels, own.Dense, own.IDs = 0, own.Labels[:0], own.Dense[:0], own.IDs[:0]
	own.Offsets, own.Weights, own.SampleWeights = nil, nil, nil
	for i := range b.trainers {
		slice := b.slices[i]
		if i == me {
			slice = own
		}
		f.parser.Take(int(data.SliceStart(f.n, i, b.trainers)), int(data.SliceStart(f.n, i+1, b.trainers)), slice)
	}
	own.Step, own.GlobalN, own.Next = b.step, f.n, next
	heads := make([]header, b.ep.Size()) // alive until all are sent
	b.sendToAll(func(rank int) []byte {
		heads[rank] = append(header(nil), h...)
		if rank < b.trainers {
			of := sizesOf(b.slices[rank])
			copy(heads[rank][headSizes:], of[:])
		}
		return kernels.BytesOf(heads[rank])
	})
	for i := range b.trainers {
		if i != me {
			sendParts(func(tag transport.Tag, p []byte) { b.requests = append(b.requests, b.ep.Send(i, b.tags|tag, p)) }, b.slices[i])
		}
	}
	return own, b.waitSent()
}

// sendToAll sends a header to all other ranks.
func (b *topicFeed) sendToAll(of func(rank int) []byte) {
	for rank := range b.ep.Size() {
		if rank != b.ep.Rank() {
			b.requests = append(b.requests, b.ep.Send(rank, b.tags|tagSizes, of(rank)))
		}
	}
}

// sendNotice returns a notice, or sends it to rank 0, which reports it.
func (b *topicFeed) sendNotice(h header, text string) error {
	if b.ep.Rank() != 0 {
		h[headKind], h[headGlobal] = headNotice, uint64(len(text))
		b.requests = append(b.requests, b.ep.Send(0, b.tags|tagSizes, kernels.BytesOf(h)), b.ep.Send(0, b.tags|tagLabels, []byte(text)))
		if err := b.waitSent(); err != nil {
			return err
		}
	}
	return &Notice{text}
}

func (b *topicFeed) waitSent() (err error) {
	for _, q := range b.requests {
		if lost := q.Wait(); err == nil {
			err = lost
		}
	}
	b.requests = b.requests[:0]
	return err
}

// Release keeps a slice's memory for a later one.
func (b *topicFeed) Release(slice *data.Batch) { b.own = append(b.own, slice) }

// Interrupt ends the steps where the topic has no more samples at once. The caller closes the pipeline on all ranks.
func (b *topicFeed) Interrupt() { b.closed.Store(true) }

// Close ends the reading.
func (b *topicFeed) Close() {
	b.closed.Store(true)
	b.free.Close()
	b.ready.Close()
	b.done.Wait()
}

// ReceiveTopic yields slices that the rank from sends with FeedTopic.
func ReceiveTopic(s Span, ep transport.Endpoint, channel uint16, from int, schema data.Schema) Batches {
	l := topicLink{span: s, ep: ep, tags: tags(channel), step: s.First - 1}
	return &topicReceiver{topicLink: l, slices: receiver{ep: ep, from: from, tags: l.tags, schema: schema}}
}

// topicReceiver is a rank that does not read.
type topicReceiver struct {
	topicLink
	slices receiver
	over   bool
}

// Next receives the next step's slice.
func (b *topicReceiver) Next() (*data.Batch, error) {
	if b.over {
		return nil, io.EOF
	}
	h := newHeader(len(b.span.Topic.From.Next))
	if err := b.slices.receivePart(tagSizes, kernels.BytesOf(h)); err != nil {
		return nil, err
	}
	switch h[headKind] {
	case headFailed:
		return nil, &lrpp.PeerGaveUp{Rank: b.slices.from}
	case headEnd:
		b.over, b.stopped = true, ending(h[headGlobal]) == endStopped
		return nil, io.EOF
	case headNotice:
		text := make([]byte, h[headGlobal])
		if err := b.slices.receivePart(tagLabels, text); err != nil {
			return nil, err
		}
		return nil, &Notice{string(text)}
	}
	b.step++
	slice, err := b.slices.receiveSlice(sizes(h[headSizes:headPosition]))
	if err != nil {
		return nil, err
	}
	slice.Step, slice.GlobalN, slice.Next = b.step, int(h[headGlobal]), nil
	for _, w := range h[headPosition:] {
		slice.Next = append(slice.Next, int64(w))
	}
	return slice, nil
}

// Release keeps a slice's memory for a later one.
func (b *topicReceiver) Release(slice *data.Batch) { b.slices.Release(slice) }

// Close does nothing.
func (b *topicReceiver) Close() {}
