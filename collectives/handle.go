package collectives

import (
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
)

// Handle is an operation whose result can be waited for.
type Handle struct {
	comm *Comm
	op   op
	next *Handle // in the free list

	mon   env.Monitor // guards state and err
	state handleState
	err   error
}

type handleState int

const (
	handleNew handleState = iota // not started
	handleRunning
	handleEnded
	handleFree // waited for; in the free list
)

// op is an operation and its arguments.
type op struct {
	what               string // name in traces
	run                func(*Comm, *op)
	dst, src           kernels.Buffer
	dstBytes, srcBytes []int
	root               int
	reads              bool                       // it also reads dst
	onNCCL             func(*ncclComm, *op) error // nil: never run by NCCL
}

// Start starts the operation, which runs concurrently with the caller. The caller must
// Wait for it later.
func (h *Handle) Start() *Handle {
	h.mon.Lock()
	if h.state != handleNew {
		h.mon.Unlock()
		panic("collectives: Start called twice on a handle")
	}
	h.state = handleRunning
	h.mon.Unlock()
	h.comm.enqueueHandle(h)
	return h
}

// Wait returns when the operation is over. Its error is the one that ended the
// communicator. Wait must be called once, because the Handle is then reused. An operation
// that was not started is run now. The caller runs it itself unless other operations are
// in progress, which saves two switches of goroutines.
func (h *Handle) Wait() error {
	c := h.comm
	h.mon.Lock()
	if h.state == handleNew {
		h.state = handleRunning
		h.mon.Unlock()
		if c.claimTurn() {
			c.executeHandle(h)
		} else {
			c.enqueueHandle(h)
		}
		h.mon.Lock()
	}
	for h.state == handleRunning {
		h.mon.Wait()
	}
	if h.state == handleFree {
		h.mon.Unlock()
		panic("collectives: Wait called twice on a handle")
	}
	err := h.err
	h.state = handleFree
	h.mon.Unlock()

	c.mon.Lock()
	h.next, c.free = c.free, h
	c.mon.Unlock()
	return err
}

func (h *Handle) setResult(err error) {
	h.mon.Lock()
	h.op = op{}
	h.state, h.err = handleEnded, err
	h.mon.Wake()
	h.mon.Unlock()
}

// newHandle returns a handle of the operation o.
func (c *Comm) newHandle(o op) *Handle {
	c.mon.Lock()
	h := c.free
	if h != nil {
		c.free = h.next
	}
	c.mon.Unlock()
	if h == nil {
		h = &Handle{comm: c, mon: c.env.Monitor("collectives handle")}
	}
	h.op, h.next, h.state, h.err = o, nil, handleNew, nil
	return h
}

// claimTurn reserves the communicator for an operation that the caller runs itself. It
// reports false if other operations are in progress.
func (c *Comm) claimTurn() bool {
	c.mon.Lock()
	defer c.mon.Unlock()
	if c.inProgress > 0 || c.closed {
		return false
	}
	c.inProgress, c.claimed = 1, true
	return true
}

// enqueueHandle queues an operation for the communicator's goroutine.
func (c *Comm) enqueueHandle(h *Handle) {
	c.mon.Lock()
	claimed := c.claimed
	c.inProgress++
	c.mon.Unlock()
	if claimed {
		panic("collectives: an operation was started while another goroutine runs one in Wait")
	}
	if !c.queue.Put(h) {
		panic("collectives: an operation was started after Close")
	}
}

// executeHandle runs an operation. Only one runs at a time.
func (c *Comm) executeHandle(h *Handle) {
	if c.err == nil {
		c.ops++
		c.track.Begin(h.op.what, c.ops)
		c.runOp(&h.op)
		c.track.End()
	}
	err := c.err
	c.mon.Lock()
	c.inProgress--
	c.claimed = false
	c.mon.Unlock()
	h.setResult(err)
}
