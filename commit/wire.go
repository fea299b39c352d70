package commit

import (
	"github.com/ecrec/ecrec/collectives"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// wire moves rows between all ranks of a world. It has one caller at a time.
type wire struct {
	comm                 *collectives.Comm
	sent, received       []int32 // counts of rows, by rank
	counts               []int
	sendBytes, recvBytes []int
}

func newWire(comm *collectives.Comm) *wire {
	n := comm.Size()
	return &wire{comm: comm, sent: make([]int32, n), received: make([]int32, n), counts: make([]int, n),
		sendBytes: make([]int, n), recvBytes: make([]int, n)}
}

// exchangeCounts sends how many rows each rank will receive, and returns how many this rank
// will receive from each. to and from are 4, the bytes of a count, for the ranks that
// exchange counts with this one, and else 0.
func (w *wire) exchangeCounts(rows, to, from []int) ([]int, error) {
	w.sent, w.received = w.sent[:0], w.received[:sum(from)/4]
	for r, n := range rows {
		if to[r] > 0 {
			w.sent = append(w.sent, int32(n))
		}
	}
	if err := w.comm.AllToAllV(kernels.HostBuffer(w.received), from, kernels.HostBuffer(w.sent), to).Wait(); err != nil {
		return nil, err
	}
	at := 0
	for r := range w.counts {
		w.counts[r] = 0
		if from[r] > 0 {
			w.counts[r] = int(w.received[at])
			at++
		}
	}
	return w.counts, nil
}

// exchangeRows exchanges rows of rowBytes bytes: received[r] from rank r into dst, sent[r] to
// it from src.
func (w *wire) exchangeRows(dst, src kernels.Buffer, received, sent []int, rowBytes int) error {
	for r := range received {
		w.recvBytes[r], w.sendBytes[r] = received[r]*rowBytes, sent[r]*rowBytes
	}
	return w.comm.AllToAllV(dst, w.recvBytes, src, w.sendBytes).Wait()
}

// channel is where rounds of a rebuild exchange rows: a wire, and a view of this rank's
// rows with a stream of its own.
type channel struct {
	*wire
	shard *shard.Shard
}

// background is a goroutine that exchanges the deltas of one epoch at a time.
type background struct {
	*wire
	jobs    *env.Queue[func() error]
	results *env.Queue[error]
	stopped *env.Event
	busy    bool
	waiting func() error // a job that has not begun
}

// newBackground starts the goroutine.
func newBackground(e env.Env, comm *collectives.Comm) *background {
	b := &background{wire: newWire(comm),
		jobs:    env.NewQueue[func() error](e, "deltas", 1),
		results: env.NewQueue[error](e, "deltas sent", 1),
		stopped: env.NewEvent(e, "deltas stopped"),
	}
	e.Go("deltas", b.serveJobs)
	return b
}

func (b *background) serveJobs() {
	defer b.stopped.Set(nil)
	for {
		job, ok := b.jobs.Get()
		if !ok {
			return
		}
		b.results.Put(job())
	}
}

// prepareJob takes a job, which startJob begins. None is under way.
func (b *background) prepareJob(job func() error) { b.waiting = job }

// startJob begins the job that is prepared, if there is one.
func (b *background) startJob() {
	if b.waiting == nil {
		return
	}
	b.busy = true
	b.jobs.Put(b.waiting)
	b.waiting = nil
}

// waitForJob waits for the job that is prepared or under way, if there is one, and returns its error.
func (b *background) waitForJob() error {
	b.startJob()
	if !b.busy {
		return nil
	}
	b.busy = false
	err, _ := b.results.Get()
	return err
}

// stopJobs ends the goroutine. If a job may still exchange rows, the endpoint is aborted before.
func (b *background) stopJobs() {
	b.jobs.Close()
	_ = b.stopped.Wait()
}

func sum(list []int) (total int) {
	for _, n := range list {
		total += n
	}
	return total
}
