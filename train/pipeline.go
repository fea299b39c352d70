package train

import (
	"errors"
	"io"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/trace"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/transport"
)

// A rank holds the batches of the step before, of this one and of the next; the
// planner has those that it wants to know behind, and prepares some more.
const (
	workHeld  = 3
	workAhead = 3
)

// work is one planned batch.
type work struct {
	batch      *data.Batch
	step       lrpp.Step
	read, plan time.Duration // what these took
}

// pipeline reads and plans batches in the background, in step order. Advance
// belongs to the training goroutine.
type pipeline struct {
	env     env.Env
	ep      transport.Endpoint
	reader  batches
	comm    *collectives.Comm // the planner's
	stream  kernels.Stream    // comm's
	planner *lrpp.Planner
	explain func(err error, step int64) error
	chaos   func(step int64, point string) error
	track   *trace.Track
	ready   *env.Queue[planned]
	free    *env.Queue[*work]
	ended   *env.Event

	begun           bool
	prev, cur, next *work
	err             error // what comes after next: io.EOF, or why no more steps can be trained
}

type planned struct {
	w   *work
	err error
}

// pipeline starts reading and planning the steps of a span. One pipeline at a time
// uses the channels: for plans, and for slices from readers.
func (r *rank) pipeline(s span, channels [2]uint16, po lrpp.PlanOptions) *pipeline {
	e, j := r.env, r.job
	po.Lookahead = max(1, min(po.Lookahead, int(s.last-s.first)))
	works := workHeld + workAhead + 1
	if po.Mode == lrpp.Cached {
		works += po.Lookahead
	}
	p := &pipeline{
		env:     e,
		ep:      r.ep,
		reader:  r.batches(s, works+1, channels[1]),
		stream:  j.host.Stream(1),
		explain: j.explain,
		chaos:   r.chaos,
		track:   r.tracks.planner,
		ready:   env.NewQueue[planned](e, "planned batches", works+1), // and the end
		free:    env.NewQueue[*work](e, "free batches", works),
		ended:   env.NewEvent(e, "pipeline"),
	}
	p.comm = collectives.New(e, r.ep, channels[0], j.host, p.stream)
	po.FirstOwner, po.Before = j.roles.first, s.first-1
	p.planner = lrpp.NewPlanner(p.comm, j.place, po)
	for range works {
		p.free.Put(new(work))
	}
	e.Go("planner", p.run)
	return p
}

func (p *pipeline) run() {
	defer p.ended.Set(nil)
	defer p.ready.Close()
	var before *work   // the one planned last
	var filled []*work // those not planned
	for {
		w, err := p.fill()
		if errors.Is(err, errReleased) {
			return
		}
		// A step that cannot be filled is the same one on all ranks: those before it
		// are trained.
		if w != nil {
			filled = append(filled, w)
		} else {
			p.planner.End()
		}
		for len(filled) > p.planner.Ahead() || w == nil && len(filled) > 0 {
			if planErr := p.plan(before, filled); planErr != nil {
				if err == nil {
					err = planErr
				}
				p.ready.Put(planned{err: err})
				return
			}
			before = filled[0]
			p.ready.Put(planned{w: before})
			filled = append(filled[:0], filled[1:]...)
		}
		if err != nil {
			p.ready.Put(planned{err: err})
		}
		if w == nil {
			return
		}
	}
}

// plan plans the first of the filled steps.
func (p *pipeline) plan(before *work, filled []*work) error {
	w := filled[0]
	p.track.Begin("plan", w.batch.Step)
	defer p.track.End()
	if err := p.chaos(w.batch.Step, "plan"); err != nil {
		return err
	}
	var next *work
	if len(filled) > 1 {
		next = filled[1]
	}
	began := p.env.Now()
	err := p.planner.Plan(stepOf(before), &w.step, stepOf(next))
	w.plan += p.env.Now() - began
	if err != nil {
		return p.explain(err, w.batch.Step)
	}
	return nil
}

// errReleased ends a planner whose pipeline is closed.
var errReleased = errors.New("train: the pipeline is closed")

// fill reads and fills the next step; nil after the last.
func (p *pipeline) fill() (*work, error) {
	w, ok := p.free.Get()
	if !ok {
		return nil, errReleased
	}
	if w.batch != nil {
		p.reader.Release(w.batch)
	}
	var err error
	began := p.env.Now()
	w.batch, err = p.reader.Next()
	w.read = p.env.Now() - began
	switch {
	case err == nil:
		p.track.Begin("fill", w.batch.Step)
		defer func() {
			p.track.End()
			w.plan = p.env.Now() - began - w.read
		}()
		if err := p.planner.Fill(&w.step, w.batch.IDs); err != nil {
			return nil, err
		}
		return w, nil
	case errors.Is(err, io.EOF):
		return nil, nil
	default:
		_ = p.planner.GiveUp(&w.step) // err says more
		return nil, err
	}
}

func stepOf(w *work) *lrpp.Step {
	if w == nil {
		return nil
	}
	return &w.step
}

// Advance moves on to the next step and returns its work, which is valid, as is
// that of the step before, until the Advance after the next; io.EOF after the
// last. p.next is then the work that follows, if any does.
func (p *pipeline) Advance() (*work, error) {
	if !p.begun {
		p.begun = true
		p.get()
	}
	p.release(p.prev)
	p.prev, p.cur, p.next = p.cur, p.next, nil
	if p.cur == nil {
		return nil, p.err
	}
	p.get()
	return p.cur, nil
}

// get takes the next planned work, if there is any.
func (p *pipeline) get() {
	if p.err != nil {
		return
	}
	x, ok := p.ready.Get()
	if !ok {
		x.err = io.EOF
	}
	p.next, p.err = x.w, x.err
}

func (p *pipeline) release(w *work) {
	if w != nil {
		p.free.Put(w)
	}
}

// Close ends the pipeline. After a success it is called by all ranks after the
// same step: each planner then plans what was released and ends, so that none
// waits for one that is gone. What goes wrong in that, with batches that nobody
// will train, is dropped. After a failure, err ends the endpoint first, and nothing
// is released: rows that are on their way beside the caller follow those plans.
func (p *pipeline) Close(err error) {
	if err != nil {
		p.ep.Abort(err)
	} else {
		for _, w := range []*work{p.prev, p.cur, p.next} {
			p.release(w)
		}
	}
	p.free.Close()
	_ = p.ended.Wait() // carries no error
	p.reader.Close()
	p.comm.Close()
	p.stream.Close()
}
