package train

import (
	"errors"
	"io"

	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lrpp"
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
	reader  *data.Reader
	planner *lrpp.Planner
	ready   *env.Queue[planned]
	free    *env.Queue[*work]
	ended   *env.Event
}

type planned struct {
	w   *work
	err error
}

func newPipeline(e env.Env, reader *data.Reader, planner *lrpp.Planner) *pipeline {
	p := &pipeline{
		reader: reader, planner: planner,
		ready: env.NewQueue[planned](e, "planned batches", workAhead+1), // and the end
		free:  env.NewQueue[*work](e, "free batches", workAhead),
		ended: env.NewEvent(e, "pipeline"),
	}
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
		if w.batch, err = p.reader.Next(); err == nil {
			err = p.planner.Fill(&w.step, w.batch.IDs)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.ready.Put(planned{err: err})
			}
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

// Close ends the background work and waits for it. The planner's communicator
// must have ended first when it may wait for ranks that ended early.
func (p *pipeline) Close() {
	p.free.Close()
	p.ready.Close()
	p.ended.Wait()
	p.reader.Close()
}
