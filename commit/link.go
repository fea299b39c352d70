package commit

import (
	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
)

// link is a Committer's part of a world: its communicator, and the goroutine on
// which deltas travel, one epoch's at a time.
type link struct {
	comm    *collectives.Comm
	jobs    *env.Queue[func() error]
	ends    *env.Queue[error]
	stopped *env.Event
	running bool

	mine, come           []int32 // rows for and from each rank
	words                []int   // 4 bytes for each rank
	counted              []int
	sendBytes, recvBytes []int
}

// Join enters a world, whose communicator is the Committer's own.
func (c *Committer) Join(comm *collectives.Comm) {
	n, e := comm.Size(), c.o.Env
	l := &link{comm: comm, mine: make([]int32, n), come: make([]int32, n), words: make([]int, n), counted: make([]int, n),
		sendBytes: make([]int, n), recvBytes: make([]int, n),
		jobs:    env.NewQueue[func() error](e, "deltas", 1),
		ends:    env.NewQueue[error](e, "deltas sent", 1),
		stopped: env.NewEvent(e, "deltas stopped"),
	}
	for r := range l.words {
		l.words[r] = 4
	}
	c.link = l
	e.Go("deltas", l.work)
}

// Leave ends the part in a world. Where something may still travel, its endpoint is
// aborted first.
func (c *Committer) Leave() {
	if c.link == nil {
		return
	}
	c.link.jobs.Close()
	_ = c.link.stopped.Wait()
	c.link = nil
}

func (l *link) work() {
	defer l.stopped.Set(nil)
	for {
		job, ok := l.jobs.Get()
		if !ok {
			return
		}
		l.ends.Put(job())
	}
}

func (l *link) start(job func() error) {
	l.running = true
	l.jobs.Put(job)
}

// wait waits for the job under way, if there is one.
func (l *link) wait() error {
	if !l.running {
		return nil
	}
	l.running = false
	err, _ := l.ends.Get()
	return err
}

// counts tells each rank how many rows come, and returns how many come from each.
func (l *link) counts(mine []int) ([]int, error) {
	for r, n := range mine {
		l.mine[r] = int32(n)
	}
	if err := l.comm.AllToAllV(kernels.HostBuffer(l.come), l.words, kernels.HostBuffer(l.mine), l.words).Wait(); err != nil {
		return nil, err
	}
	for r, n := range l.come {
		l.counted[r] = int(n)
	}
	return l.counted, nil
}

// move exchanges rows of so many bytes.
func (l *link) move(dst, src kernels.Buffer, come, mine []int, bytes int) error {
	for r := range come {
		l.recvBytes[r], l.sendBytes[r] = come[r]*bytes, mine[r]*bytes
	}
	return l.comm.AllToAllV(dst, l.recvBytes, src, l.sendBytes).Wait()
}
