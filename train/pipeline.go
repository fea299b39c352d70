package train

import (
	"errors"
	"io"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/transport"
)

// workAhead is how many planned batches a rank holds: the one in training and
// those prepared behind it.
const workAhead = 3

// work is one planned batch.
type work struct {
	batch *data.Batch
	step  lrpp.Step
}

// pipeline reads and plans batches in the background, in step order. Next and
// Release belong to the training goroutine.
type pipeline struct {
	ep      transport.Endpoint
	reader  *data.Reader
	comm    *collectives.Comm // the planner's
	stream  kernels.Stream    // comm's
	planner *lrpp.Planner
	ready   *env.Queue[planned]
	free    *env.Queue[*work]
	ended   *env.Event
}

type planned struct {
	w   *work
	err error
}

// pipeline starts reading and planning the steps first to last of a source. One
// pipeline at a time uses a channel.
func (r *rank) pipeline(src data.Source, o data.Order, first, last int64, channel uint16) *pipeline {
	e, j := r.env, r.job
	p := &pipeline{
		ep:     r.ep,
		reader: data.NewReader(e, src, o, r.id, j.ranks, first, last, workAhead+1),
		stream: j.dev.Stream(1),
		ready:  env.NewQueue[planned](e, "planned batches", workAhead+1), // and the end
		free:   env.NewQueue[*work](e, "free batches", workAhead),
		ended:  env.NewEvent(e, "pipeline"),
	}
	p.comm = collectives.New(e, r.ep, channel, j.dev, p.stream)
	p.planner = lrpp.NewPlanner(p.comm, j.place)
	for range workAhead {
		p.free.Put(new(work))
	}
	e.Go("planner", p.run)
	return p
}

func (p *pipeline) run() {
	defer p.ended.Set(nil)
	defer p.ready.Close()
	for {
		w, ok := p.free.Get()
		if !ok {
			return
		}
		if w.batch != nil {
			p.reader.Release(w.batch)
		}
		var err error
		switch w.batch, err = p.reader.Next(); {
		case err == nil:
			err = p.planner.Fill(&w.step, w.batch.IDs)
		case errors.Is(err, io.EOF):
			return
		default:
			_ = p.planner.GiveUp(&w.step) // err says more
		}
		if err != nil {
			p.ready.Put(planned{err: err})
			return
		}
		if !p.ready.Put(planned{w: w}) {
			return
		}
	}
}

// Next returns the next step's work; io.EOF after the last.
func (p *pipeline) Next() (*work, error) {
	x, ok := p.ready.Get()
	if !ok {
		return nil, io.EOF
	}
	return x.w, x.err
}

// Release gives work back.
func (p *pipeline) Release(w *work) { p.free.Put(w) }

// Close ends the pipeline. After a success it is called with all work released,
// by all ranks after the same step: each planner then plans what was released
// and ends, so that none waits for one that is gone. What goes wrong in that,
// with batches that nobody will train, is dropped. After a failure, err ends the
// endpoint first.
func (p *pipeline) Close(err error) {
	if err != nil {
		p.ep.Abort(err)
	}
	p.free.Close()
	_ = p.ended.Wait() // carries no error
	p.reader.Close()
	p.comm.Close()
	p.stream.Close()
}
