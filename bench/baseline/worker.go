package baseline

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// worker does one job at a time beside the training goroutine.
type worker struct {
	env     env.Env
	jobs    *env.Queue[func() error]
	ends    *env.Queue[error]
	stopped *env.Event
	running bool
	took    time.Duration // of the last job, once it was waited for
	begins  time.Duration
}

func startWorker(e env.Env) worker {
	w := worker{env: e, jobs: env.NewQueue[func() error](e, "baseline jobs", 1), ends: env.NewQueue[error](e, "baseline jobs done", 1),
		stopped: env.NewEvent(e, "baseline worker stopped")}
	jobs, ends, stopped := w.jobs, w.ends, w.stopped
	e.Go("baseline worker", func() {
		defer stopped.Set(nil)
		for {
			job, ok := jobs.Get()
			if !ok {
				return
			}
			ends.Put(job())
		}
	})
	return w
}

func (w *worker) startJob(job func() error) {
	w.running, w.begins = true, w.env.Now()
	w.jobs.Put(job)
}

// waitJob waits for the job. It returns at once if there is none.
func (w *worker) waitJob() error {
	if !w.running {
		return nil
	}
	w.running = false
	err, _ := w.ends.Get()
	w.took = w.env.Now() - w.begins
	return err
}

func (w *worker) stopWorker() {
	w.jobs.Close()
	_ = w.stopped.Wait()
}
