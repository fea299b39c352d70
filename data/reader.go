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
	given       int // batches that Next has returned
	closed      bool

	turns []*turn // goroutine i prepares every len(turns)-th step from first + i on
}

// turn is a goroutine that prepares steps, with batches of its own: it always has one for the
// step that the caller waits for.
type turn struct {
	ready *env.Queue[prepared]
	free  *env.Queue[*Batch]
	done  *env.Event // the goroutine has ended
	later []*Batch   // that are not used yet
}

// atFirst is how many batches a goroutine has at first. Each Next gives it another one, up to its number: the first step of a job does not
// share the cores with the preparation of many more.
const atFirst = 2

type prepared struct {
	batch *Batch
	err   error
}

// apart is a Source that can prepare several steps at once for no more work than one after
// another. A Source that reads blocks of files is not one: they are kept from step to step.
type apart interface{ readsApart() }

// NewReader starts reading slice rank of ranks of the steps first to last. depth
// batches exist at least, and at least 2: the prepared ones and the ones that the
// caller holds, which are those of consecutive steps. Up to threads goroutines prepare
// steps of synthetic data; others have one. Several have a batch more each, so that all of
// them can work while the caller holds many.
func NewReader(e env.Env, src Source, o Order, rank, ranks int, first, last int64, depth, threads int) *Reader {
	if depth < 2 || rank < 0 || rank >= ranks || first < 1 || o.Batch < 1 || o.Samples < 1 {
		panic(fmt.Sprintf("data: NewReader(%+v, rank %d of %d, from step %d, depth %d)", o, rank, ranks, first, depth))
	}
	if _, ok := src.(apart); !ok {
		threads = 1
	}
	threads = min(max(threads, 1), depth, mostReaders)
	each := (depth + threads - 1) / threads
	if threads > 1 {
		each++
	}
	r := &Reader{src: src, order: o, rank: rank, ranks: ranks, first: first, last: last, depth: depth}
	for range threads {
		t := &turn{
			ready: env.NewQueue[prepared](e, "data ready", each+1), // and the end
			free:  env.NewQueue[*Batch](e, "data free", each),
			done:  env.NewEvent(e, "data reader"),
		}
		blocks := new(blockCache)
		for i := range each {
			if b := (&Batch{read: readState{blocks: blocks}}); i < atFirst {
				t.free.Put(b)
			} else {
				t.later = append(t.later, b)
			}
		}
		r.turns = append(r.turns, t)
	}
	for i, t := range r.turns {
		e.Go(fmt.Sprintf("data reader %d", rank), func() { r.prepareAll(t, first+int64(i)) })
	}
	return r
}

// mostReaders bounds the goroutines of a Reader, and so the steps that are prepared at once.
const mostReaders = 8

// prepareAll prepares the steps of t, from first on.
func (r *Reader) prepareAll(t *turn, first int64) {
	defer t.done.Set(nil)
	for step := first; step <= r.last; step += int64(len(r.turns)) {
		b, ok := t.free.Get()
		if !ok {
			return
		}
		b.idx = r.order.Slice(step, r.rank, r.ranks, b.idx)
		if err := r.src.Read(b, b.idx); err != nil {
			t.ready.Put(prepared{err: fmt.Errorf("step %d: %w", step, err)})
			return
		}
		b.Step, b.GlobalN = step, r.order.BatchSize(step)
		if !t.ready.Put(prepared{batch: b}) {
			return
		}
	}
	t.ready.Put(prepared{err: io.EOF})
}

// Next returns the next step's batch, waiting until it is there. After the last
// step, and after Close, it returns io.EOF; an error of the source is returned
// in place of the batch that it hit, and from then on.
func (r *Reader) Next() (*Batch, error) {
	if r.held == r.depth {
		panic("data: Next called while all batches of the reader are held")
	}
	t := r.turns[r.given%len(r.turns)]
	p, ok := t.ready.Get()
	if !ok || r.closed {
		return nil, io.EOF
	}
	if p.err != nil {
		t.ready.Put(p) // there is room: nothing follows an error
		return nil, p.err
	}
	r.held++
	r.given++
	if len(t.later) > 0 {
		t.free.Put(t.later[0])
		t.later = t.later[1:]
	}
	return p.batch, nil
}

// Release gives a batch back, whose memory will be used for a later one.
func (r *Reader) Release(b *Batch) {
	if r.held == 0 {
		panic("data: Release of a batch that is not held")
	}
	r.held--
	r.turns[(b.Step-r.first)%int64(len(r.turns))].free.Put(b)
}

// Close ends the background work and waits until it has.
func (r *Reader) Close() {
	r.closed = true
	for _, t := range r.turns {
		t.free.Close()
		t.ready.Close()
	}
	for _, t := range r.turns {
		t.done.Wait()
	}
}
