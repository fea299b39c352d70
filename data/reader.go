package data

import (
	"fmt"
	"io"

	"github.com/ecrec/ecrec/internal/env"
)

// Reader prepares one rank's slices of consecutive steps in the background, in
// order, a bounded number ahead. Next and Release belong to one goroutine.
type Reader struct {
	src         Source
	order       Order
	rank, ranks int
	first, last int64
	depth       int
	held        int // batches that the caller has
	closed      bool

	ready *env.Queue[prepared]
	free  *env.Queue[*Batch]
	done  *env.Event // the background goroutine has ended
}

type prepared struct {
	batch *Batch
	err   error
}

// NewReader starts reading slice rank of ranks of the steps first to last. depth
// batches exist in all, at least 2: the prepared ones and the ones that the
// caller holds.
func NewReader(e env.Env, src Source, o Order, rank, ranks int, first, last int64, depth int) *Reader {
	if depth < 2 || rank < 0 || rank >= ranks || first < 1 || o.Batch < 1 || o.Samples < 1 {
		panic(fmt.Sprintf("data: NewReader(%+v, rank %d of %d, from step %d, depth %d)", o, rank, ranks, first, depth))
	}
	r := &Reader{
		src: src, order: o, rank: rank, ranks: ranks, first: first, last: last, depth: depth,
		ready: env.NewQueue[prepared](e, "data ready", depth+1), // and the end
		free:  env.NewQueue[*Batch](e, "data free", depth),
		done:  env.NewEvent(e, "data reader"),
	}
	blocks := new(blockCache)
	for range depth {
		r.free.Put(&Batch{read: readState{blocks: blocks}})
	}
	e.Go(fmt.Sprintf("data reader %d", rank), r.prepareAll)
	return r
}

func (r *Reader) prepareAll() {
	defer r.done.Set(nil)
	for step := r.first; step <= r.last; step++ {
		b, ok := r.free.Get()
		if !ok {
			return
		}
		b.idx = r.order.Slice(step, r.rank, r.ranks, b.idx)
		if err := r.src.Read(b, b.idx); err != nil {
			r.ready.Put(prepared{err: fmt.Errorf("step %d: %w", step, err)})
			return
		}
		b.Step, b.GlobalN = step, r.order.BatchSize(step)
		if !r.ready.Put(prepared{batch: b}) {
			return
		}
	}
	r.ready.Put(prepared{err: io.EOF})
}

// Next returns the next step's batch, waiting until it is there. After the last
// step, and after Close, it returns io.EOF; an error of the source is returned
// in place of the batch that it hit, and from then on.
func (r *Reader) Next() (*Batch, error) {
	if r.held == r.depth {
		panic("data: Next called while all batches of the reader are held")
	}
	p, ok := r.ready.Get()
	if !ok || r.closed {
		return nil, io.EOF
	}
	if p.err != nil {
		r.ready.Put(p) // there is room: nothing follows an error
		return nil, p.err
	}
	r.held++
	return p.batch, nil
}

// Release gives a batch back, whose memory will be used for a later one.
func (r *Reader) Release(b *Batch) {
	if r.held == 0 {
		panic("data: Release of a batch that is not held")
	}
	r.held--
	r.free.Put(b)
}

// Close ends the background work and waits until it has.
func (r *Reader) Close() {
	r.closed = true
	r.free.Close()
	r.ready.Close()
	r.done.Wait()
}
