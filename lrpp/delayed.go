package lrpp

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/trace"
)

// delayed sends and receives rows while the training goroutine computes. At most one job
// runs at a time, and no other goroutine uses the shard meanwhile.
type delayed struct {
	env     env.Env
	channel *channel
	check   *ownerCheck
	track   *trace.Track
	jobs    *env.Queue[func() error]
	ends    *env.Queue[ended]
	stopped *env.Event
	running bool
	took    time.Duration // duration of the job that waitJob waited for last; 0 if there was none
}

// ended is the result of a job.
type ended struct {
	err  error
	took time.Duration
}

func newDelayed(e env.Env, ch *channel, c *ownerCheck, t *trace.Track) *delayed {
	d := &delayed{env: e, channel: ch, check: c, track: t,
		jobs:    env.NewQueue[func() error](e, "delayed rows", 1),
		ends:    env.NewQueue[ended](e, "delayed rows done", 1),
		stopped: env.NewEvent(e, "delayed rows stopped"),
	}
	e.Go("delayed rows", d.runJobs)
	return d
}

// startJob starts a job. waitJob waits for it and returns at once if there is none. The
// mode of the plan and the step determine whether there is a job, so that all ranks
// agree.
func (d *delayed) startJob(job func() error) {
	d.running = true
	d.jobs.Put(job)
}

func (d *delayed) waitJob() error {
	if !d.running {
		d.took = 0
		return nil
	}
	d.running = false
	end, _ := d.ends.Get()
	d.took = end.took
	return end.err
}

func (d *delayed) runJobs() {
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

func (d *delayed) stopWorker() {
	d.jobs.Close()
	_ = d.stopped.Wait()
	d.channel.waitAndFree()
	d.channel.shard.Close()
}
