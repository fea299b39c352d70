package collectives

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/trace"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// maxQueued bounds the operations of a Comm that were started and not yet run;
// starting another then waits.
const maxQueued = 64

// Comm is one rank's communicator. Operations are made, started and, where they
// were not started, waited for by one goroutine at a time.
type Comm struct {
	env    env.Env
	ep     transport.Endpoint
	base   transport.Tag // the channel
	dev    kernels.Device
	stream kernels.Stream

	queue   *env.Queue[*Handle]
	stopped *env.Event

	mon     env.Monitor // guards what follows
	free    *Handle
	begun   int  // operations that are queued or run
	claimed bool // the one that runs is run by its caller
	closed  bool

	// What follows belongs to who runs the one operation that runs.
	err      error // the first failure
	track    *trace.Track
	ops      int64 // that ran
	requests []transport.Request
	reduce   reducer
	here     [1]byte // what meet sends
	there    []byte  // by peer: what it brings
	staged   staged
	fabric   *fabric // nil: there is no NCCL
}

// Tags within a channel. Messages between two ranks keep their order under each,
// and all ranks run the same operations, so no operation needs its own.
const (
	tagData   transport.Tag = iota + 1
	tagResult               // AllReduce's finished chunks
	tagWord                 // short words between all ranks
	tagWatch                // what never comes: see fabric
)

// New makes this rank's communicator on ep. channel tells it from the others on
// the same endpoint and is the same on all ranks. Additions and copies run on s,
// which is the communicator's own until Close; scratch comes from dev.
func New(e env.Env, ep transport.Endpoint, channel uint16, dev kernels.Device, s kernels.Stream) *Comm {
	name := fmt.Sprintf("collectives rank %d channel %d", ep.Rank(), channel)
	c := &Comm{
		env:      e,
		ep:       ep,
		base:     transport.Tag(channel) << 48,
		dev:      dev,
		stream:   s,
		queue:    env.NewQueue[*Handle](e, name+" queue", maxQueued),
		stopped:  env.NewEvent(e, name+" stopped"),
		mon:      e.Monitor(name),
		requests: make([]transport.Request, 0, 2*ep.Size()),
		there:    make([]byte, ep.Size()),
	}
	e.Go(name, c.work)
	return c
}

// Record has every operation from now on recorded, with its number. It comes
// before the first.
func (c *Comm) Record(t *trace.Track) { c.track = t }

// Rank is this rank's number.
func (c *Comm) Rank() int { return c.ep.Rank() }

// Size is the number of ranks.
func (c *Comm) Size() int { return c.ep.Size() }

// Close runs what was started and frees the communicator. It leaves the endpoint
// open; where a peer may be gone or behind, Abort the endpoint first.
func (c *Comm) Close() {
	c.mon.Lock()
	c.closed = true
	c.mon.Unlock()
	c.queue.Close()
	_ = c.stopped.Wait()
}

func (c *Comm) work() {
	for {
		h, ok := c.queue.Get()
		if !ok {
			break
		}
		c.execute(h)
	}
	if c.fabric != nil {
		c.fabric.close()
	}
	c.reduce.free(c.dev)
	c.staged.free(c.dev)
	c.stopped.Set(nil)
}

// fail ends the communicator: see the package doc.
func (c *Comm) fail(err error) {
	if c.err == nil {
		c.err = err
		c.ep.Abort(err)
	}
}

// send and recv post a message; an empty one is not sent, as both ends know.
func (c *Comm) send(to int, tag transport.Tag, p []byte) transport.Request {
	if len(p) == 0 {
		return nil
	}
	return c.ep.Send(to, c.base|tag, p)
}

func (c *Comm) recv(from int, tag transport.Tag, p []byte) transport.Request {
	if len(p) == 0 {
		return nil
	}
	return c.ep.Recv(from, c.base|tag, p)
}

// add remembers a request of the operation for waitAll.
func (c *Comm) add(r transport.Request) {
	if r != nil {
		c.requests = append(c.requests, r)
	}
}

// waitAll waits for all requests of the operation. One that fails aborts the
// endpoint, so that the others end too.
func (c *Comm) waitAll() {
	for i, r := range c.requests {
		c.wait(r)
		c.requests[i] = nil
	}
	c.requests = c.requests[:0]
}

func (c *Comm) wait(r transport.Request) {
	if r == nil {
		return
	}
	if err := r.Wait(); err != nil {
		c.fail(err)
	}
}

// host is b's memory, which must be the CPU's.
func host(b kernels.Buffer) []byte {
	p := b.Host()
	if p == nil && b.Bytes() > 0 {
		panic("collectives: a buffer that the CPU cannot address")
	}
	return p
}

// tell sends word to all other ranks, and brings theirs to where into says.
func (c *Comm) tell(word []byte, into func(peer int) []byte) {
	n, rank := c.Size(), c.Rank()
	for k := 1; k < n; k++ {
		from := (rank - k + n) % n
		c.add(c.recv(from, tagWord, into(from)))
	}
	for k := 1; k < n; k++ {
		c.add(c.send((rank+k)%n, tagWord, word))
	}
	c.waitAll()
}

// meet waits until all ranks are here.
func (c *Comm) meet() {
	c.tell(c.here[:1], func(peer int) []byte { return c.there[peer : peer+1] })
}

// sync waits for the stream.
func (c *Comm) sync() {
	if err := c.stream.Sync(); err != nil {
		c.fail(err)
	}
}

// copyOwn copies this rank's own part, unless it is in place already.
func (c *Comm) copyOwn(dst, src kernels.Buffer) {
	if dst.Bytes() == 0 || dst == src {
		return
	}
	c.stream.Copy(dst, src)
	c.sync()
}

// sum adds up counts, one for each rank.
func (c *Comm) sum(what string, counts []int) int {
	if len(counts) != c.Size() {
		panic(fmt.Sprintf("collectives: %s gives %d counts for %d ranks", what, len(counts), c.Size()))
	}
	total := 0
	for r, n := range counts {
		if n < 0 {
			panic(fmt.Sprintf("collectives: %s gives %d bytes for rank %d", what, n, r))
		}
		total += n
	}
	return total
}

func wantBytes(what string, b kernels.Buffer, n int) {
	if b.Bytes() != n {
		panic(fmt.Sprintf("collectives: %s has %d bytes, not %d", what, b.Bytes(), n))
	}
}
