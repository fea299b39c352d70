package feed

import (
	"io"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/transport"
)

// Batches yields a rank's slices of consecutive steps. A data.Reader is one.
type Batches interface {
	// Next returns the next step's slice, and io.EOF after the last.
	Next() (*data.Batch, error)
	// Release gives the memory of a slice back.
	Release(*data.Batch)
	Close()
}

// Span is the steps of one pass over data.
type Span struct {
	Source      data.Source
	Order       data.Order
	First, Last int64
	// Topic is the topic that the samples are in, in place of Source. It may end before Last.
	Topic *Topic
	// Threads is how many goroutines may read steps at once; 0 is one.
	Threads int
}

// openReader opens a reader of one trainer's slices, some steps ahead.
func (s Span) openReader(e env.Env, trainer, trainers, ahead int) *data.Reader {
	return data.NewReader(e, s.Source, s.Order, trainer, trainers, s.First, s.Last, ahead, s.Threads)
}

// Read yields the slices of one of some trainers, which reads them itself.
func Read(e env.Env, s Span, trainer, trainers, ahead int) Batches {
	return s.openReader(e, trainer, trainers, ahead)
}

// Empty yields slices without samples, for a rank that trains nothing.
func Empty(s Span) Batches { return newEmpty(s) }

func newEmpty(s Span) *empty { return &empty{span: s, step: s.First - 1} }

type empty struct {
	span Span
	step int64
}

// Next returns a slice without samples.
func (b *empty) Next() (*data.Batch, error) {
	if b.step == b.span.Last {
		return nil, io.EOF
	}
	b.step++
	return &data.Batch{Step: b.step, GlobalN: b.span.Order.BatchSize(b.step)}, nil
}

// Release does nothing.
func (b *empty) Release(*data.Batch) {}

// Close does nothing.
func (b *empty) Close() {}

// Tags of a slice, in the order in which a reader sends its parts: the sizes, then the slice.
const (
	tagSizes transport.Tag = iota + 1
	tagLabels
	tagDense
	tagIDs
	tagOffsets
	tagWeights
	tagSampleWeights
)

// sizes describe a slice: its samples, or unreadable if it could not be read, its ids, and the
// lengths of its offsets, weights and sample weights.
type sizes [5]uint64

const unreadable = ^uint64(0)

func sizesOf(b *data.Batch) sizes {
	return sizes{uint64(b.N), uint64(len(b.IDs)), uint64(len(b.Offsets)), uint64(len(b.Weights)), uint64(len(b.SampleWeights))}
}

// tags is the first tag of a channel.
func tags(channel uint16) transport.Tag { return transport.Tag(channel) << 48 }

// Serve yields empty slices, and sends the slices of some of all trainers to them.
// Trainer i is rank i.
func Serve(e env.Env, s Span, ep transport.Endpoint, channel uint16, served []int, trainers, ahead int) Batches {
	b := &server{empty: newEmpty(s), ep: ep, tags: tags(channel), trainers: served}
	for _, t := range served {
		b.readers = append(b.readers, s.openReader(e, t, trainers, ahead))
	}
	return b
}

type server struct {
	*empty
	ep       transport.Endpoint
	tags     transport.Tag
	trainers []int
	readers  []*data.Reader // of each of trainers
	requests []transport.Request
}

// Next sends the next step's slices. It returns when the trainers have received them.
func (b *server) Next() (*data.Batch, error) {
	own, err := b.empty.Next()
	if err != nil {
		return nil, err
	}
	slices := make([]*data.Batch, len(b.trainers))
	for i, reader := range b.readers {
		if err == nil {
			slices[i], err = reader.Next()
		}
		if err != nil { // then no trainer trains this step
			b.sendSlice(i, sizes{unreadable}, nil)
			continue
		}
		b.sendSlice(i, sizesOf(slices[i]), slices[i])
	}
	for _, q := range b.requests {
		if lost := q.Wait(); err == nil {
			err = lost
		}
	}
	b.requests = b.requests[:0]
	for i, slice := range slices {
		if slice != nil {
			b.readers[i].Release(slice)
		}
	}
	return own, err
}

// sendSlice sends sizes, and the slice if there is one, to the i-th trainer.
func (b *server) sendSlice(i int, of sizes, slice *data.Batch) {
	send := func(tag transport.Tag, p []byte) {
		b.requests = append(b.requests, b.ep.Send(b.trainers[i], b.tags|tag, p))
	}
	send(tagSizes, kernels.BytesOf(of[:]))
	if slice != nil {
		sendParts(send, slice)
	}
}

// part is a part of a slice.
type part struct {
	tag transport.Tag
	p   []byte
}

// partsOf lists the parts of a slice in the order in which they are sent.
func partsOf(b *data.Batch) [6]part {
	return [...]part{{tagLabels, kernels.BytesOf(b.Labels)}, {tagDense, kernels.BytesOf(b.Dense)}, {tagIDs, kernels.BytesOf(b.IDs)},
		{tagOffsets, kernels.BytesOf(b.Offsets)}, {tagWeights, kernels.BytesOf(b.Weights)}, {tagSampleWeights, kernels.BytesOf(b.SampleWeights)}}
}

// sendParts sends the parts of a slice that are not empty.
func sendParts(send func(transport.Tag, []byte), b *data.Batch) {
	for _, x := range partsOf(b) {
		if len(x.p) > 0 {
			send(x.tag, x.p)
		}
	}
}

// Close closes the readers.
func (b *server) Close() {
	for _, reader := range b.readers {
		reader.Close()
	}
}

// Receive yields slices that the rank from sends with Serve.
func Receive(s Span, ep transport.Endpoint, channel uint16, from int, schema data.Schema) Batches {
	return &receiver{empty: newEmpty(s), ep: ep, from: from, tags: tags(channel), schema: schema}
}

type receiver struct {
	*empty
	ep     transport.Endpoint
	from   int
	tags   transport.Tag
	schema data.Schema
	free   []*data.Batch
}

// Next receives the next step's slice.
func (b *receiver) Next() (*data.Batch, error) {
	none, err := b.empty.Next()
	if err != nil {
		return nil, err
	}
	of := new(sizes)
	if err := b.receivePart(tagSizes, kernels.BytesOf(of[:])); err != nil {
		return nil, err
	}
	if of[0] == unreadable {
		return nil, &lrpp.PeerGaveUp{Rank: b.from}
	}
	slice, err := b.receiveSlice(*of)
	if err == nil {
		slice.Step, slice.GlobalN = none.Step, none.GlobalN
	}
	return slice, err
}

// receiveSlice receives a slice of known sizes.
func (b *receiver) receiveSlice(of sizes) (*data.Batch, error) {
	slice := new(data.Batch)
	if n := len(b.free); n > 0 {
		slice, b.free = b.free[n-1], b.free[:n-1]
	}
	slice.N = int(of[0])
	slice.Labels, slice.Dense = resize(slice.Labels, slice.N), resize(slice.Dense, slice.N*b.schema.Dense)
	slice.IDs = resize(slice.IDs, int(of[1]))
	slice.Offsets, slice.Weights = resizeOrNil(slice.Offsets, int(of[2])), resizeOrNil(slice.Weights, int(of[3]))
	slice.SampleWeights = resizeOrNil(slice.SampleWeights, int(of[4]))
	for _, x := range partsOf(slice) {
		if err := b.receivePart(x.tag, x.p); err != nil {
			return nil, err
		}
	}
	return slice, nil
}

func (b *receiver) receivePart(tag transport.Tag, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	return b.ep.Recv(b.from, b.tags|tag, p).Wait()
}

// Release keeps a slice's memory for a later one.
func (b *receiver) Release(slice *data.Batch) { b.free = append(b.free, slice) }

// resizeOrNil is resize, nil for no values: offsets of no values are not offsets of no cells.
func resizeOrNil[T any](s []T, n int) []T {
	if n == 0 {
		return nil
	}
	return resize(s, n)
}

// resize returns n values, in the memory of s if they fit. They are not cleared.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
