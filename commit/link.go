package commit

import (
	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// wire moves rows between all ranks of a world, for one caller at a time.
type wire struct {
	comm                 *collectives.Comm
	mine, come           []int32 // rows for and from each rank
	counted              []int
	sendBytes, recvBytes []int
}

func newWire(comm *collectives.Comm) *wire {
	n := comm.Size()
	return &wire{comm: comm, mine: make([]int32, n), come: make([]int32, n), counted: make([]int, n),
		sendBytes: make([]int, n), recvBytes: make([]int, n)}
}

// counts tells ranks how many rows come, and returns how many come from each: to those
// where to says 4, from those where from does, which is the bytes of a count.
func (w *wire) counts(mine, to, from []int) ([]int, error) {
	w.mine, w.come = w.mine[:0], w.come[:sum(from)/4]
	for r, n := range mine {
		if to[r] > 0 {
			w.mine = append(w.mine, int32(n))
		}
	}
	if err := w.comm.AllToAllV(kernels.HostBuffer(w.come), from, kernels.HostBuffer(w.mine), to).Wait(); err != nil {
		return nil, err
	}
	at := 0
	for r := range w.counted {
		w.counted[r] = 0
		if from[r] > 0 {
			w.counted[r] = int(w.come[at])
			at++
		}
	}
	return w.counted, nil
}

// move exchanges rows of so many bytes.
func (w *wire) move(dst, src kernels.Buffer, come, mine []int, bytes int) error {
	for r := range come {
		w.recvBytes[r], w.sendBytes[r] = come[r]*bytes, mine[r]*bytes
	}
	return w.comm.AllToAllV(dst, w.recvBytes, src, w.sendBytes).Wait()
}

// link is a Committer's part of a world: what deltas travel on, and their goroutine,
// one epoch's at a time.
type link struct {
	*wire
	lane    lane // of rounds
	jobs    *env.Queue[func() error]
	ends    *env.Queue[error]
	stopped *env.Event
	running bool
}

// lane is what rounds go on: the rows, on a stream of their own, and a communicator.
type lane struct {
	*wire
	shard *shard.Shard
}

// Join enters a world. deltas is the communicator of what travels in the background,
// rounds that of Round, which works on rows, a view of this rank's shard that is the
// caller's.
func (c *Committer) Join(deltas, rounds *collectives.Comm, rows *shard.Shard) {
	e := c.o.Env
	l := &link{wire: newWire(deltas), lane: lane{newWire(rounds), rows},
		jobs:    env.NewQueue[func() error](e, "deltas", 1),
		ends:    env.NewQueue[error](e, "deltas sent", 1),
		stopped: env.NewEvent(e, "deltas stopped"),
	}
	c.link = l
	c.parity.join(l)
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
