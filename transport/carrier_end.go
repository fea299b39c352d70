package transport

import (
	"errors"
	"time"
)

// How a carrier ends, and what it has under way: MPI tells nobody that a process is gone.

// mourn ends what is under way on a link that has failed: MPI itself may never do so.
func (c *carrier) mourn(l *link) {
	if l.mourned {
		return
	}
	l.mourned = true
	for slot := range c.under {
		p := &c.under[slot]
		switch {
		case p.link != l:
		case p.kind == bulkIn:
			_ = c.comm.Cancel(slot)
		case p.kind == bulkOut: // its memory is only read
			l.written(&p.frame, errHungUp)
			p.kind = packetOut
			p.link.packets, p.link.bulks = p.link.packets+1, p.link.bulks-1
		}
	}
}

// fail ends all links: MPI no longer works.
func (c *carrier) fail(err error) {
	for _, l := range c.world.links {
		if l != nil {
			l.fail(err)
		}
	}
	c.abandon(err)
}

// stop ends serve.
func (c *carrier) stop() {
	c.mon.Lock()
	c.ending = true
	c.mon.Wake()
	c.mon.Unlock()
	_ = c.over.Wait()
}

// endLimit is how long the carrier waits, at the end, for what MPI has under way.
const endLimit = 2 * time.Second

// end takes the receives back and waits for the rest.
func (c *carrier) end() {
	for _, slot := range c.awaited {
		_ = c.comm.Cancel(slot)
	}
	awaited := packetsAwaited - len(c.arrived)
	for until := c.env.Now() + endLimit; (awaited > 0 || c.pending > 0) && c.env.Now() < until; {
		var err error
		if c.done, err = c.comm.Poll(c.done[:0]); err != nil {
			c.abandon(err)
			return
		}
		for _, d := range c.done {
			if c.under[d.Slot].kind == packetIn {
				awaited--
				continue
			}
			c.ended(d)
		}
		if len(c.done) == 0 {
			c.env.Sleep(mpiNap)
		}
	}
	c.abandon(errors.New("MPI has not ended it"))
}

// abandon ends the requests whose bytes MPI still has.
func (c *carrier) abandon(err error) {
	for _, p := range c.under {
		switch p.kind {
		case bulkOut:
			p.link.written(&p.frame, err)
		case bulkIn:
			p.arrived(err)
		}
	}
}
