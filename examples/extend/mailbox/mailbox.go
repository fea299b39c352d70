package mailbox

import (
	"errors"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/transport"
)

// New makes a world of n ranks.
func New(e env.Env, n int, generation uint64) []transport.Endpoint {
	w := &world{generation: generation, mon: e.Monitor("mailbox"), ends: make([]*endpoint, n)}
	eps := make([]transport.Endpoint, n)
	for r := range n {
		w.ends[r] = &endpoint{world: w, rank: r}
		eps[r] = w.ends[r]
	}
	return eps
}

// world has all that its ranks share. The monitor guards every field below it, also of
// endpoints and requests.
type world struct {
	generation uint64
	ends       []*endpoint

	mon    env.Monitor
	posted []*request // without a match, in the order in which they were posted
}

type endpoint struct {
	*world
	rank int
	own  error // ends its own requests after Abort or Close
	seen error // ends the requests of other ranks on this one
}

// request is a send or a receive.
type request struct {
	*world
	from, to int
	tag      transport.Tag
	receive  bool
	p        []byte
	done     bool
	err      error
}

func (ep *endpoint) Rank() int          { return ep.rank }
func (ep *endpoint) Size() int          { return len(ep.ends) }
func (ep *endpoint) Generation() uint64 { return ep.generation }

func (ep *endpoint) Send(to int, tag transport.Tag, p []byte) transport.Request {
	return ep.post(&request{world: ep.world, from: ep.rank, to: to, tag: tag, p: p}, to)
}

func (ep *endpoint) Recv(from int, tag transport.Tag, p []byte) transport.Request {
	return ep.post(&request{world: ep.world, from: from, to: ep.rank, tag: tag, p: p, receive: true}, from)
}

// post completes a request with the oldest one that matches, or queues it.
func (ep *endpoint) post(r *request, peer int) *request {
	ep.mon.Lock()
	defer ep.mon.Unlock()
	if ep.own != nil {
		r.finish(ep.own)
		return r
	}
	if err := ep.ends[peer].seen; err != nil {
		r.finish(err)
		return r
	}
	for i, other := range ep.posted {
		if other.from == r.from && other.to == r.to && other.tag == r.tag && other.receive != r.receive {
			ep.posted = append(ep.posted[:i], ep.posted[i+1:]...)
			match(r, other)
			return r
		}
	}
	ep.posted = append(ep.posted, r)
	return r
}

// match copies the bytes of a message and ends both of its requests.
func match(a, b *request) {
	send, receive := a, b
	if a.receive {
		send, receive = b, a
	}
	var err error
	if len(send.p) != len(receive.p) {
		err = &transport.LengthError{From: send.from, To: send.to, Tag: send.tag, Sent: len(send.p), Wants: len(receive.p)}
	} else {
		copy(receive.p, send.p)
	}
	send.finish(nil)
	receive.finish(err)
}

func (r *request) finish(err error) {
	r.done, r.err = true, err
	r.mon.Wake()
}

func (r *request) Wait() error {
	r.mon.Lock()
	defer r.mon.Unlock()
	for !r.done {
		r.mon.Wait()
	}
	return r.err
}

// Abort ends the requests of this rank with cause, and those of others on it with a loss.
func (ep *endpoint) Abort(cause error) {
	ep.mon.Lock()
	defer ep.mon.Unlock()
	if ep.own != nil {
		return
	}
	ep.own, ep.seen = cause, cause
	if lost := (*transport.PeerLost)(nil); !errors.As(cause, &lost) {
		ep.seen = &transport.PeerLost{Rank: ep.rank, Generation: ep.generation, Cause: cause}
	}
	rest := ep.posted[:0]
	for _, r := range ep.posted {
		mine := r.from
		if r.receive {
			mine = r.to
		}
		switch {
		case mine == ep.rank:
			r.finish(ep.own)
		case r.from == ep.rank || r.to == ep.rank:
			r.finish(ep.seen)
		default:
			rest = append(rest, r)
		}
	}
	ep.posted = rest
}

func (ep *endpoint) Close() error {
	ep.Abort(transport.ErrClosed)
	return nil
}
