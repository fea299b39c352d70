package lrpp

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/trace"
)

// delayed moves rows while the training goroutine computes. One job is under way
// at a time, and nobody else touches the shard meanwhile.
type delayed struct {
	env     env.Env
	lane    *lane
	check   *check
	track   *trace.Track
	jobs    *env.Queue[func() error]
	ends    *env.Queue[ended]
	stopped *env.Event
	running bool
	took    time.Duration // by the job that was waited for last
}

// ended is how a job went.
type ended struct {
	err  error
	took time.Duration
}

func newDelayed(e env.Env, l *lane, c *check, t *trace.Track) *delayed {
	d := &delayed{env: e, lane: l, check: c, track: t,
		jobs:    env.NewQueue[func() error](e, "delayed rows", 1),
		ends:    env.NewQueue[ended](e, "delayed rows done", 1),
		stopped: env.NewEvent(e, "delayed rows stopped"),
	}
	e.Go("delayed rows", d.work)
	return d
}

// start begins a job; wait waits for it, and does nothing where there is none.
// Whether there is one follows from the plan's mode and step, the same on all
// ranks.
func (d *delayed) start(job func() error) {
	d.running = true
	d.jobs.Put(job)
}

func (d *delayed) wait() error {
	if !d.running {
		return nil
	}
	d.running = false
	end, _ := d.ends.Get()
	d.took = end.took
	return end.err
}

func (d *delayed) work() {
	defer d.stopped.Set(nil)
	for {
		job, ok := d.jobs.Get()
		if !ok {
			return
		}
		began := d.env.Now()
		err := job()
		d.ends.Put(ended{err, d.env.Now() - began})
	}
}

func (d *delayed) close() {
	d.jobs.Close()
	_ = d.stopped.Wait()
	d.lane.close()
	d.lane.shard.Close()
}
