package collectives

import (
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/kernels"
)

// Handle is an operation that was started.
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
	handleRunning handleState = iota
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
}

// Wait returns when the operation is over, with what ended the communicator if
// it failed. It is called once: the Handle is then reused.
func (h *Handle) Wait() error {
	h.mon.Lock()
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

	c := h.comm
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

// start queues an operation.
func (c *Comm) start(o op) *Handle {
	c.mon.Lock()
	h := c.free
	if h != nil {
		c.free = h.next
	}
	c.mon.Unlock()
	if h == nil {
		h = &Handle{comm: c, mon: c.env.Monitor("collectives handle")}
	}
	h.op, h.next, h.state, h.err = o, nil, handleRunning, nil
	if !c.queue.Put(h) {
		panic("collectives: an operation was started after Close")
	}
	return h
}
