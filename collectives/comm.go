package collectives

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/trace"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/transport"
)

// maxQueued limits the operations of a Comm that were started and have not run. Starting
// another one then blocks.
const maxQueued = 64

// Comm is one rank's communicator. Operations must be made, started and waited for by one
// goroutine at a time; operations that were started may be waited for by any.
type Comm struct {
	messenger

	queue   *env.Queue[*Handle]
	stopped *env.Event

	mon        env.Monitor // guards the fields up to closed
	free       *Handle
	inProgress int  // number of operations that are queued or running
	claimed    bool // the running operation runs on its caller's goroutine
	closed     bool

	// The following belong to the goroutine that runs the current operation.
	track     *trace.Track
	ops       int64 // number of operations run
	reduce    reducer
	broadcast broadcaster
	bruck     bruck
	staged    staged
	nccl      *ncclComm // nil: NCCL is not used
}

// New returns this rank's communicator on ep. channel distinguishes it from the others on
// the same endpoint and is the same on all ranks. Additions and copies run on s, which
// only the communicator may use until Close. Scratch memory is allocated from dev.
func New(e env.Env, ep transport.Endpoint, channel uint16, dev kernels.Device, s kernels.Stream) *Comm {
	name := fmt.Sprintf("collectives rank %d channel %d", ep.Rank(), channel)
	c := &Comm{
		messenger: messenger{
			env:       e,
			ep:        ep,
			base:      transport.Tag(channel) << 48,
			dev:       dev,
			stream:    s,
			requests:  make([]transport.Request, 0, 2*ep.Size()),
			tokensIn:  make([]byte, ep.Size()),
			dstPlaces: make([]int, ep.Size()),
			srcPlaces: make([]int, ep.Size()),
		},
		queue:   env.NewQueue[*Handle](e, name+" queue", maxQueued),
		stopped: env.NewEvent(e, name+" stopped"),
		mon:     e.Monitor(name),
	}
	e.Go(name, c.runQueue)
	return c
}

// Record makes t record every operation, with its number. It must be called before the
// first operation.
func (c *Comm) Record(t *trace.Track) { c.track = t }

// Close runs the operations that were started and frees the communicator. It leaves the
// endpoint open. If a peer may be lost or behind, Abort the endpoint first.
func (c *Comm) Close() {
	c.mon.Lock()
	c.closed = true
	c.mon.Unlock()
	c.queue.Close()
	_ = c.stopped.Wait()
}

func (c *Comm) runQueue() {
	for {
		h, ok := c.queue.Get()
		if !ok {
			break
		}
		c.executeHandle(h)
	}
	if c.nccl != nil {
		c.nccl.shutDown()
	}
	c.reduce.freeBuffers(c.dev)
	c.staged.freeBuffers(c.dev)
	c.stopped.Set(nil)
}

// sumCounts returns the sum of counts, which has one entry for each rank.
func (c *Comm) sumCounts(what string, counts []int) int {
	if len(counts) != c.Size() {
		panic(fmt.Sprintf("collectives: %s has %d counts for %d ranks", what, len(counts), c.Size()))
	}
	total := 0
	for r, n := range counts {
		if n < 0 {
			panic(fmt.Sprintf("collectives: %s has a count of %d bytes for rank %d", what, n, r))
		}
		total += n
	}
	return total
}

func wantBytes(what string, b kernels.Buffer, n int) {
	if b.Bytes() != n {
		panic(fmt.Sprintf("collectives: %s has %d bytes, want %d", what, b.Bytes(), n))
	}
}
