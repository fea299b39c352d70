package lrpp

import (
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/trace"
	"github.com/ecrec/ecrec/kernels"
)

// delayed moves rows while the training goroutine computes. One job is under way
// at a time, and nobody else touches the shard meanwhile.
type delayed struct {
	lane    *lane
	check   *check
	track   *trace.Track
	jobs    *env.Queue[job]
	ends    *env.Queue[error]
	stopped *env.Event
	running bool
}

// job is what moves during one step: gradients of the step before, to be applied,
// then the early rows of the next.
type job struct {
	later  pending
	fetch  *Fetch         // nil: none
	rows   kernels.Matrix // where they go
	reader int64          // the step that reads them
}

func newDelayed(e env.Env, l *lane, c *check, t *trace.Track) *delayed {
	d := &delayed{lane: l, check: c, track: t,
		jobs:    env.NewQueue[job](e, "delayed rows", 1),
		ends:    env.NewQueue[error](e, "delayed rows done", 1),
		stopped: env.NewEvent(e, "delayed rows stopped"),
	}
	e.Go("delayed rows", d.work)
	return d
}

// start begins a job; wait waits for it, and does nothing where there is none.
// Whether there is one follows from the plan's mode and step, the same on all
// ranks.
func (d *delayed) start(j job) {
	if j.empty() {
		return
	}
	d.running = true
	d.jobs.Put(j)
}

// empty reports whether nothing moves on any rank: what this rank moves may be
// nothing while others wait for its part.
func (j *job) empty() bool {
	return (j.later.push == nil || j.later.push.none) && (j.fetch == nil || j.fetch.none)
}

func (d *delayed) wait() error {
	if !d.running {
		return nil
	}
	d.running = false
	err, _ := d.ends.Get()
	return err
}

func (d *delayed) work() {
	defer d.stopped.Set(nil)
	for {
		j, ok := d.jobs.Get()
		if !ok {
			return
		}
		d.ends.Put(d.run(&j))
	}
}

func (d *delayed) run(j *job) error {
	if p := j.later.push; p != nil && !p.none {
		if err := d.update(&j.later); err != nil {
			return err
		}
	}
	if j.fetch == nil || j.fetch.none {
		return nil
	}
	d.track.Begin("rows", j.reader)
	defer d.track.End()
	d.check.read(j.fetch)
	if err := d.lane.serve(j.rows, j.fetch, d.lane.shard.Read); err != nil {
		return err
	}
	return d.lane.wait()
}

// update sends gradients and applies those that come.
func (d *delayed) update(p *pending) error {
	d.track.Begin("gradients", p.step)
	defer d.track.End()
	if err := d.lane.send(p.sums, p.push); err != nil {
		return err
	}
	if err := d.lane.wait(); err != nil {
		return err
	}
	d.check.apply(p.push, p.step)
	return d.lane.apply(p.push, p.opt)
}

func (d *delayed) close() {
	d.jobs.Close()
	_ = d.stopped.Wait()
	d.lane.close()
	d.lane.shard.Close()
}
