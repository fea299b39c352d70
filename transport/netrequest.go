package transport

import (
	"slices"
	"sync/atomic"

	"github.com/ecrec/ecrec/internal/env"
)

// netRequest is a send or a receive over a link. Its link's monitor guards it, except for
// the fields that Wait reads.
type netRequest struct {
	link *link
	pair *pair
	next *netRequest // in the free list
	tag  Tag
	p    []byte
	id   uint64 // of an offer, or of a receive that asks for one
	off  int    // bytes transferred
	from uint64 // of a receive: the message's address in the peer
	// Of a receive over MPI: the bytes that the peer has announced so far, of which off
	// have arrived.
	announced int
	bulks     int   // announced pieces in progress
	failed    error // of the first piece that failed
	// direct sends are offered with their address, which is the offer's payload.
	direct  bool
	address [addressBytes]byte
	// eager sends are sent in one frame; others are offered first.
	eager bool
	// moving means that p is in use outside the monitor. Only the goroutine that uses it
	// may then end the request.
	moving bool

	over atomic.Bool // ended, for goroutines that poll
	mon  env.Monitor // guards done and err
	done requestState
	err  error
}

func (r *netRequest) endWith(err error) {
	r.mon.Lock()
	r.done, r.err = requestEnded, err
	r.over.Store(true)
	r.mon.Wake()
	r.mon.Unlock()
}

func (r *netRequest) Wait() error {
	l := r.link
	sleeps := l.ring != nil && !r.over.Load() && !l.world.polling.pollUntilDone(r)
	if sleeps {
		l.world.polling.beginSleep()
	}
	if l.reader != nil && !r.over.Load() {
		l.reader.readUntilDone(r)
	}
	r.mon.Lock()
	for r.done == requestPosted {
		r.mon.Wait()
	}
	if r.done == requestOver {
		r.mon.Unlock()
		panic("transport: Wait called twice on a request")
	}
	err := r.err
	r.done = requestOver
	r.mon.Unlock()
	if sleeps {
		l.world.polling.endSleep()
	}

	l.mon.Lock()
	r.p, r.err = nil, nil
	r.next, l.free = l.free, r
	l.mon.Unlock()
	return err
}

// newRequest takes a request from the free list or makes one. The caller holds the
// monitor.
func (l *link) newRequest(p *pair, tag Tag, b []byte) *netRequest {
	r := l.free
	if r == nil {
		r = &netRequest{link: l, mon: l.world.env.Monitor("net request")}
	} else {
		l.free = r.next
	}
	r.next, r.pair, r.tag, r.p = nil, p, tag, b
	r.id, r.off, r.eager, r.direct, r.moving = 0, 0, false, false, false
	r.announced, r.bulks, r.failed = 0, 0, nil
	r.over.Store(false)
	r.mon.Lock()
	r.done = requestPosted
	r.mon.Unlock()
	return r
}

// removeByTag removes and returns the oldest request under tag, nil if there is none.
func removeByTag(list *[]*netRequest, tag Tag) *netRequest {
	for i, r := range *list {
		if r.tag == tag {
			*list = slices.Delete(*list, i, i+1)
			return r
		}
	}
	return nil
}
