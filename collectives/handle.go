package collectives

import (
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
)

// Handle is an operation, and where the result of it is waited for.
type Handle struct {
	comm *Comm
	op   op
	next *Handle // in the free list

	mon   env.Monitor // guards what follows
	state handleState
	err   error
}

type handleState int

const (
	handleMade handleState = iota // not started
	handleRunning
	handleEnded
	handleOver // waited for; in the free list
)

// op is an operation and its arguments.
type op struct {
	what               string // in traces
	run                func(*Comm, *op)
	dst, src           kernels.Buffer
	dstBytes, srcBytes []int
	root               int
	reads              bool                     // dst too
	onFabric           func(*fabric, *op) error // nil: never by NCCL
}

// Start starts the operation beside the caller, who waits for it later.
func (h *Handle) Start() *Handle {
	h.mon.Lock()
	if h.state != handleMade {
		h.mon.Unlock()
		panic("collectives: Start of an operation that was started")
	}
	h.state = handleRunning
	h.mon.Unlock()
	h.comm.enqueue(h)
	return h
}

// Wait returns when the operation is over, with what ended the communicator if
// it failed. It is called once: the Handle is then reused. An operation that was
// not started is run now, by the caller itself unless others are under way: that
// saves two changes of goroutines.
func (h *Handle) Wait() error {
	c := h.comm
	h.mon.Lock()
	if h.state == handleMade {
		h.state = handleRunning
		h.mon.Unlock()
		if c.claim() {
			c.execute(h)
		} else {
			c.enqueue(h)
		}
		h.mon.Lock()
	}
	for h.state == handleRunning {
		h.mon.Wait()
	}
	if h.state == handleOver {
		h.mon.Unlock()
		panic("collectives: Wait called twice on a handle")
	}
	err := h.err
	h.state = handleOver
	h.mon.Unlock()

	c.mon.Lock()
	h.next, c.free = c.free, h
	c.mon.Unlock()
	return err
}

func (h *Handle) end(err error) {
	h.mon.Lock()
	h.op = op{}
	h.state, h.err = handleEnded, err
	h.mon.Wake()
	h.mon.Unlock()
}

// operation makes a handle.
func (c *Comm) operation(o op) *Handle {
	c.mon.Lock()
	h := c.free
	if h != nil {
		c.free = h.next
	}
	c.mon.Unlock()
	if h == nil {
		h = &Handle{comm: c, mon: c.env.Monitor("collectives handle")}
	}
	h.op, h.next, h.state, h.err = o, nil, handleMade, nil
	return h
}

// claim lets the caller run an operation itself. It reports false where others are
// to run before.
func (c *Comm) claim() bool {
	c.mon.Lock()
	defer c.mon.Unlock()
	if c.begun > 0 || c.closed {
		return false
	}
	c.begun, c.claimed = 1, true
	return true
}

// enqueue has the communicator's goroutine run an operation after those that were
// begun before.
func (c *Comm) enqueue(h *Handle) {
	c.mon.Lock()
	claimed := c.claimed
	c.begun++
	c.mon.Unlock()
	if claimed {
		panic("collectives: an operation was started while another goroutine runs one in Wait")
	}
	if !c.queue.Put(h) {
		panic("collectives: an operation was started after Close")
	}
}

// execute runs an operation that was begun; there is one at a time.
func (c *Comm) execute(h *Handle) {
	if c.err == nil {
		c.ops++
		c.track.Begin(h.op.what, c.ops)
		c.run(&h.op)
		c.track.End()
	}
	err := c.err
	c.mon.Lock()
	c.begun--
	c.claimed = false
	c.mon.Unlock()
	h.end(err)
}
