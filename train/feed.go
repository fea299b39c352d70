package train

import (
	"io"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/transport"
)

// batches gives a rank its slices of consecutive steps; data.Reader is one.
type batches interface {
	// Next returns the next step's slice, io.EOF after the last.
	Next() (*data.Batch, error)
	// Release gives a slice back.
	Release(*data.Batch)
	Close()
}

// span is the steps of one pass over data.
type span struct {
	src         data.Source
	order       data.Order
	first, last int64
}

// batches is where this rank's slices come from: its own reading, or that of a
// reader, which sends them on the channel. A rank that trains nothing has empty
// ones.
func (r *rank) batches(s span, depth int, channel uint16) batches {
	ro := r.job.roles
	none := idle{span: s, step: s.first - 1}
	base := transport.Tag(channel) << 48
	switch {
	case ro.trains(r.id) && ro.readers > 0:
		return &fed{idle: none, ep: r.ep, from: ro.feeds(r.id), base: base, schema: r.job.schema}
	case ro.trains(r.id):
		return data.NewReader(r.env, s.src, s.order, r.id, ro.trainers, s.first, s.last, depth)
	case ro.reader(r.id) >= 0:
		f := &feeder{idle: none, ep: r.ep, base: base}
		for t := ro.reader(r.id); t < ro.trainers; t += ro.readers {
			f.trainers = append(f.trainers, t)
			f.readers = append(f.readers, data.NewReader(r.env, s.src, s.order, t, ro.trainers, s.first, s.last, depth))
		}
		return f
	}
	return &none
}

// idle gives empty slices.
type idle struct {
	span
	step int64
}

// Next returns a slice without samples.
func (i *idle) Next() (*data.Batch, error) {
	if i.step == i.last {
		return nil, io.EOF
	}
	i.step++
	return &data.Batch{Step: i.step, GlobalN: i.order.BatchSize(i.step)}, nil
}

// Release does nothing.
func (i *idle) Release(*data.Batch) {}

// Close does nothing.
func (i *idle) Close() {}

// What a reader sends for each slice: the number of samples, unreadable in place
// of a slice that it could not read, then the slice.
const (
	tagCount transport.Tag = iota + 1
	tagLabels
	tagDense
	tagIDs
)

const unreadable = ^uint64(0)

// feeder reads slices of some trainers and sends them; its own are empty.
type feeder struct {
	idle
	ep       transport.Endpoint
	base     transport.Tag
	trainers []int
	readers  []*data.Reader // of each of trainers
	requests []transport.Request
}

// Next sends the next step's slices, once the trainers want them.
func (f *feeder) Next() (*data.Batch, error) {
	none, err := f.idle.Next()
	if err != nil {
		return nil, err
	}
	held := make([]*data.Batch, len(f.trainers))
	for i, rd := range f.readers {
		if err != nil { // no trainer trains this step
			f.send(i, unreadable, nil)
			continue
		}
		if held[i], err = rd.Next(); err != nil {
			f.send(i, unreadable, nil)
			continue
		}
		f.send(i, uint64(held[i].N), held[i])
	}
	for _, q := range f.requests {
		if lost := q.Wait(); err == nil {
			err = lost
		}
	}
	f.requests = f.requests[:0]
	for i, b := range held {
		if b != nil {
			f.readers[i].Release(b)
		}
	}
	return none, err
}

func (f *feeder) send(i int, count uint64, b *data.Batch) {
	to := f.trainers[i]
	post := func(tag transport.Tag, p []byte) {
		if len(p) > 0 {
			f.requests = append(f.requests, f.ep.Send(to, f.base|tag, p))
		}
	}
	post(tagCount, kernels.BytesOf([]uint64{count}))
	if b != nil {
		post(tagLabels, kernels.BytesOf(b.Labels))
		post(tagDense, kernels.BytesOf(b.Dense))
		post(tagIDs, kernels.BytesOf(b.IDs))
	}
}

// Close ends the reading.
func (f *feeder) Close() {
	for _, rd := range f.readers {
		rd.Close()
	}
}

// fed receives the slices of one trainer.
type fed struct {
	idle
	ep     transport.Endpoint
	from   int
	base   transport.Tag
	schema data.Schema
	free   []*data.Batch
}

// Next receives the next step's slice.
func (f *fed) Next() (*data.Batch, error) {
	none, err := f.idle.Next()
	if err != nil {
		return nil, err
	}
	count := make([]uint64, 1)
	if err := f.receive(tagCount, kernels.BytesOf(count)); err != nil {
		return nil, err
	}
	if count[0] == unreadable {
		return nil, &lrpp.PeerGaveUp{Rank: f.from}
	}
	b := new(data.Batch)
	if n := len(f.free); n > 0 {
		b, f.free = f.free[n-1], f.free[:n-1]
	}
	b.Step, b.GlobalN, b.N = none.Step, none.GlobalN, int(count[0])
	b.Labels, b.Dense, b.IDs = room(b.Labels, b.N), room(b.Dense, b.N*f.schema.Dense), room(b.IDs, b.N*len(f.schema.Tables))
	for _, part := range []struct {
		tag transport.Tag
		p   []byte
	}{{tagLabels, kernels.BytesOf(b.Labels)}, {tagDense, kernels.BytesOf(b.Dense)}, {tagIDs, kernels.BytesOf(b.IDs)}} {
		if err := f.receive(part.tag, part.p); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (f *fed) receive(tag transport.Tag, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	return f.ep.Recv(f.from, f.base|tag, p).Wait()
}

// Release keeps a slice's memory for a later one.
func (f *fed) Release(b *data.Batch) { f.free = append(f.free, b) }

func room[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
