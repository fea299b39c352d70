package feed

import (
	"errors"
	"io"
	"time"

	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/data"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/placement"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/internal/trace"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/lrpp"
	"github.com/ecrec/ecrec/transport"
)

// workHeld are the batches of the last step, of this one and of the next.
const workHeld = 3

// WorkAhead is how many batches a Pipeline prepares beside the trained ones and the lookahead
// of the planner.
const WorkAhead = 3

// Work is one planned batch.
type Work struct {
	Batch *data.Batch
	Plan  lrpp.Step
	// ReadTook and PlanTook are how long the planner needed for it.
	ReadTook, PlanTook time.Duration
}

// planOf is the plan of w, nil if there is no w.
func planOf(w *Work) *lrpp.Step {
	if w == nil {
		return nil
	}
	return &w.Plan
}

// Options make a Pipeline.
type Options struct {
	Env      env.Env
	Endpoint transport.Endpoint
	// Channel is the planner's. One Pipeline at a time may use it.
	Channel uint16
	// Host is the CPU, whose memory plans are in.
	Host kernels.Device
	// Lists, if not nil, is the device to which the long lists of plans are copied in the background.
	Lists kernels.Device
	Place placement.Map
	// TableOf is the table of each feature, as in data.Schema.
	TableOf []int
	// Steps is how many steps there are.
	Steps int64
	// Open opens the source of slices, which may read a number of steps ahead.
	Open func(ahead int) Batches
	// Plan configures the planner, but its threads. Threads is their number.
	Plan    lrpp.PlanOptions
	Threads int
	// Explain, if set, may replace the error of a step that cannot be planned.
	Explain func(err error, step int64) error
	// Notice, if set, is called by the training goroutine with the text of a Notice.
	Notice func(text string)
	// Probe reaches probe.Plan before each plan.
	Probe *probe.Probe
	// Track records the planner's work; it may be nil.
	Track *trace.Track
}

// Pipeline reads and plans batches in the background, in step order. Advance and Close
// belong to the training goroutine.
type Pipeline struct {
	o       Options
	batches Batches
	comm    *collectives.Comm // the planner's
	stream  kernels.Stream    // comm's
	threads *kernels.Threads  // of the planner
	planner *lrpp.Planner
	works   []*Work
	later   []*Work             // that are not used yet
	plans   *env.Queue[planned] // of the planner; ready, or those that the uploader takes
	ready   *env.Queue[planned]
	free    *env.Queue[*Work]
	ended   *env.Event
	lists   kernels.Stream // of the uploader; nil: there is none
	copied  *env.Event     // the uploader has ended
	notices int            // that the planner received

	begun           bool
	prev, cur, next *Work
	after           *planned // follows next, if it was received already
	err             error    // after next: io.EOF, or the reason why no more steps can be trained
}

type planned struct {
	w      *Work
	err    error
	notice string // there is no work yet
}

// Start starts to read and plan.
func Start(o Options) *Pipeline {
	o.Plan.Lookahead = max(1, min(o.Plan.Lookahead, int(o.Steps)-1))
	works := workHeld + WorkAhead + 1
	if o.Plan.Mode == lrpp.Cached {
		works += o.Plan.Lookahead
	}
	p := &Pipeline{
		o:       o,
		batches: o.Open(works + 1),
		stream:  o.Host.Stream(1),
		ready:   env.NewQueue[planned](o.Env, "planned batches", works+1+mostNotices), // and the end
		free:    env.NewQueue[*Work](o.Env, "free batches", works),
		ended:   env.NewEvent(o.Env, "pipeline"),
	}
	p.comm = collectives.New(o.Env, o.Endpoint, o.Channel, o.Host, p.stream)
	p.threads = kernels.NewThreads(o.Threads)
	o.Plan.Threads = p.threads
	p.planner = lrpp.NewPlanner(p.comm, o.Place, o.Plan)
	for range works {
		p.works = append(p.works, new(Work))
	}
	// The first step, as after a loss, does not share the cores with the preparation of many others: each Advance adds one.
	first := min(works, 2+p.planner.Ahead())
	for _, w := range p.works[:first] {
		p.free.Put(w)
	}
	p.later = p.works[first:]
	p.plans = p.ready
	if o.Lists != nil {
		p.plans = env.NewQueue[planned](o.Env, "plans", works+1+mostNotices)
		p.lists, p.copied = o.Lists.Stream(1), env.NewEvent(o.Env, "list uploader")
		o.Env.Go("list uploader", p.uploadAll)
	}
	o.Env.Go("planner", p.planAll)
	return p
}

// planAll is the planner: it fills and plans one step after another.
func (p *Pipeline) planAll() {
	defer p.ended.Set(nil)
	defer p.plans.Close()
	var before *Work   // the last that was planned
	var filled []*Work // read, but not planned
	for {
		w, alike, err := p.fillNext()
		if errors.Is(err, errReleased) {
			return
		}
		if w == nil && !alike { // other planners may wait for this one, and this rank for theirs
			p.o.Endpoint.Abort(err)
			p.plans.Put(planned{err: err})
			return
		}
		if w != nil {
			filled = append(filled, w)
		} else {
			p.planner.End()
		}
		for len(filled) > p.planner.Ahead() || w == nil && len(filled) > 0 {
			if planErr := p.planFirst(before, filled); planErr != nil {
				if err == nil {
					err = planErr
				}
				p.plans.Put(planned{err: err})
				return
			}
			before = filled[0]
			p.plans.Put(planned{w: before})
			filled = append(filled[:0], filled[1:]...)
		}
		if err != nil {
			p.plans.Put(planned{err: err})
		}
		if w == nil {
			return
		}
	}
}

// uploadAll copies the lists of one plan after another to the device.
func (p *Pipeline) uploadAll() {
	defer p.copied.Set(nil)
	defer p.ready.Close()
	for {
		x, ok := p.plans.Get()
		if !ok {
			return
		}
		if x.w != nil {
			if err := x.w.Plan.UploadLists(p.o.Lists, p.lists); err != nil {
				p.o.Endpoint.Abort(err)
				x = planned{err: err}
			}
		}
		p.ready.Put(x)
	}
}

// planFirst plans the first of the filled steps.
func (p *Pipeline) planFirst(before *Work, filled []*Work) error {
	w, step := filled[0], filled[0].Batch.Step
	p.o.Track.Begin("plan", step)
	defer p.o.Track.End()
	if err := p.o.Probe.Reach(step, probe.Plan); err != nil {
		return err
	}
	var next *Work
	if len(filled) > 1 {
		next = filled[1]
	}
	began := p.o.Env.Now()
	err := p.planner.Plan(planOf(before), &w.Plan, planOf(next))
	w.PlanTook += p.o.Env.Now() - began
	if err != nil && p.o.Explain != nil {
		err = p.o.Explain(err, step)
	}
	return err
}

// errReleased ends the planner of a pipeline that is closed.
var errReleased = errors.New("feed: the pipeline is closed")

// fillNext reads the next step and gives its ids to the planner. It returns nil after the
// last step, and if the step cannot be filled. alike: no rank fills it, so that all train the steps before it. When a rank is lost,
// another one may have filled the step, and then plans the steps before it in another way.
func (p *Pipeline) fillNext() (_ *Work, alike bool, err error) {
	w, ok := p.free.Get()
	if !ok {
		return nil, false, errReleased
	}
	if w.Batch != nil {
		p.batches.Release(w.Batch)
	}
	began := p.o.Env.Now()
	w.Batch, err = p.nextSlice()
	w.ReadTook = p.o.Env.Now() - began
	switch {
	case err == nil:
		p.o.Track.Begin("fill", w.Batch.Step)
		defer func() {
			p.o.Track.End()
			w.PlanTook = p.o.Env.Now() - began - w.ReadTook
		}()
		if err := p.planner.Fill(&w.Plan, p.lookupsOf(w.Batch)); err != nil {
			return nil, errors.As(err, new(*lrpp.PeerGaveUp)), err
		}
		return w, false, nil
	case errors.Is(err, io.EOF):
		return nil, true, nil
	case errors.As(err, new(*transport.PeerLost)), errors.Is(err, transport.ErrClosed):
		// For other ranks the slices may have ended before this step: they would not expect that this one gives up.
		return nil, false, err
	default:
		failed := p.planner.GiveUp(&w.Plan)
		return nil, failed == nil, err // err is the cause
	}
}

// nextSlice returns the next slice. It passes notices on.
func (p *Pipeline) nextSlice() (*data.Batch, error) {
	for {
		b, err := p.batches.Next()
		notice := (*Notice)(nil)
		if !errors.As(err, &notice) {
			return b, err
		}
		if p.notices++; p.notices <= mostNotices && p.o.Notice != nil {
			p.plans.Put(planned{notice: notice.Text})
		}
	}
}

// lookupsOf lists the lookups of a slice.
func (p *Pipeline) lookupsOf(b *data.Batch) lrpp.Lookups {
	return lrpp.Lookups{IDs: b.IDs, Offsets: b.Offsets, Weights: b.Weights, TableOf: p.o.TableOf}
}

// Advance moves to the next step and returns its work, and io.EOF after the last. Work is
// valid until the second Advance after its own.
func (p *Pipeline) Advance() (*Work, error) {
	if !p.begun {
		p.begun = true
		p.receiveNext()
	}
	p.release(p.prev)
	p.prev, p.cur, p.next = p.cur, p.next, nil
	if p.cur == nil {
		return nil, p.err
	}
	p.receiveNext()
	if len(p.later) > 0 {
		p.release(p.later[0])
		p.later = p.later[1:]
	}
	return p.cur, nil
}

// Next is the plan of the step after the current one, nil if there is none.
func (p *Pipeline) Next() *lrpp.Step { return planOf(p.next) }

// receiveNext waits for the next planned work, if there is any.
func (p *Pipeline) receiveNext() {
	if p.err != nil {
		return
	}
	if p.after != nil {
		p.next, p.err, p.after = p.after.w, p.after.err, nil
		return
	}
	for {
		x, ok := p.ready.Get()
		if !ok {
			x.err = io.EOF
		}
		if x.notice == "" {
			p.next, p.err = x.w, x.err
			return
		}
		p.o.Notice(x.notice)
	}
}

// Ends reports whether the current step is the last one, as its slices have ended. stopped: since the job was stopped.
func (p *Pipeline) Ends() (ends, stopped bool) {
	if p.next != nil || !errors.Is(p.err, io.EOF) {
		return false, false
	}
	x, ok := p.batches.(interface{ Stopped() bool })
	return true, ok && x.Stopped()
}

// AfterNext is the plan of the step after that of Next, if it is planned already; else nil.
func (p *Pipeline) AfterNext() *lrpp.Step {
	for p.next != nil && p.after == nil && p.ready.Len() > 0 {
		x, ok := p.ready.Get()
		switch {
		case ok && x.notice != "":
			p.o.Notice(x.notice)
		case ok:
			p.after = &x
		}
	}
	if p.after == nil {
		return nil
	}
	return planOf(p.after.w)
}

func (p *Pipeline) release(w *Work) {
	if w != nil {
		p.free.Put(w)
	}
}

// Close ends the pipeline. Err is the failure after which it is closed, if any.
//
// After a success all ranks call Close after the same step. Each planner then plans
// the released work, and ends: none waits for one that has ended. Errors of these plans are
// dropped, since their batches are not trained. Work that AfterNext has received is not released: it is ready on other ranks, and all
// planners must plan as many steps. After a failure the endpoint is aborted first, and nothing is released: rows in flight still use
// these plans.
func (p *Pipeline) Close(err error) {
	if err != nil {
		p.o.Endpoint.Abort(err)
	} else {
		for _, w := range []*Work{p.prev, p.cur, p.next} {
			p.release(w)
		}
	}
	if x, ok := p.batches.(interface{ Interrupt() }); ok {
		x.Interrupt() // a rank that waits for samples would wait for ever
	}
	p.free.Close()
	_ = p.ended.Wait() // it carries no error
	if p.lists != nil {
		_ = p.copied.Wait()
		if err == nil {
			p.FreeLists()
		}
		p.lists.Close()
	}
	p.threads.Close()
	p.batches.Close()
	p.comm.Close()
	p.stream.Close()
}

// FreeLists frees the lists that the pipeline has copied. After a failure delayed work reads them until the exchange is closed: the caller of
// Close frees them then.
func (p *Pipeline) FreeLists() {
	if p.lists == nil {
		return
	}
	for _, w := range p.works {
		w.Plan.FreeLists(p.o.Lists)
	}
}
