package transport

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/env"
)

// smallBytes is the length up to which a message is copied when it is posted.
const smallBytes = 4096

// NewMem returns the endpoints of a world of n ranks in one process. Messages are copied
// once, from the sender's memory to the receiver's, so that no message is ever held. The
// side that posts second copies a short message. The side that waits first copies a
// longer one. Both sides thus share the work, and a receiver that waits has the bytes in
// its own cache. Posting and waiting allocate nothing once the requests of a pair have
// been made.
func NewMem(e env.Env, n int, generation uint64) []Endpoint {
	if n < 1 {
		panic(fmt.Sprintf("transport: NewMem of %d ranks", n))
	}
	ranks, eps := make([]int, n), make([]Endpoint, n)
	for r := range n {
		ranks[r] = r
	}
	w := newMemWorld(e, n, generation, ranks)
	for r := range n {
		eps[r] = &memEndpoint{world: w, rank: r}
	}
	return eps
}

// newMemWorld returns a world of n ranks with pipes among the local ranks.
func newMemWorld(e env.Env, n int, generation uint64, here []int) *memWorld {
	w := &memWorld{n: n, generation: generation, here: here, place: make([]int32, n), pipes: make([]memPipe, len(here)*len(here))}
	for i, r := range here {
		w.place[r] = int32(i)
	}
	for _, from := range here {
		for _, to := range here {
			if from != to {
				l := w.pipeOf(from, to)
				l.env, l.from, l.to = e, from, to
				l.mon = e.Monitor(fmt.Sprintf("mem pipe %d to %d", from, to))
			}
		}
	}
	return w
}

type memWorld struct {
	n          int
	generation uint64
	here       []int
	place      []int32   // of the local ranks: their index in here
	pipes      []memPipe // [place of from * len(here) + place of to]
}

func (w *memWorld) pipeOf(from, to int) *memPipe {
	return &w.pipes[int(w.place[from])*len(w.here)+int(w.place[to])]
}

type memEndpoint struct {
	world *memWorld
	rank  int
}

func (ep *memEndpoint) Rank() int          { return ep.rank }
func (ep *memEndpoint) Size() int          { return ep.world.n }
func (ep *memEndpoint) Generation() uint64 { return ep.world.generation }

func (ep *memEndpoint) Send(to int, tag Tag, p []byte) Request {
	checkPeer(ep, to)
	return ep.world.pipeOf(ep.rank, to).postRequest(sending, tag, p)
}

func (ep *memEndpoint) Recv(from int, tag Tag, p []byte) Request {
	checkPeer(ep, from)
	return ep.world.pipeOf(from, ep.rank).postRequest(receiving, tag, p)
}

func (ep *memEndpoint) Abort(cause error) {
	seen := lossSeenByPeers(ep.rank, ep.world.generation, cause)
	for _, peer := range ep.world.here {
		if peer != ep.rank {
			ep.world.pipeOf(ep.rank, peer).endSide(sending, cause, seen)
			ep.world.pipeOf(peer, ep.rank).endSide(receiving, cause, seen)
		}
	}
}

func (ep *memEndpoint) Close() error {
	ep.Abort(ErrClosed)
	return nil
}

// side is an end of a pipe.
type side int

const (
	sending side = iota
	receiving
)

// memPipe carries the messages from one rank to another.
type memPipe struct {
	env      env.Env
	from, to int

	mon  env.Monitor
	ends [2]memEnd   // by side
	free *memRequest // requests that are over
}

// memEnd holds the requests of one side that the other has not matched. The list is
// scanned for a tag: it is short, and its order is the same in every run.
//
// Invariant: no send and receive of one tag are unmatched at the same time, and nothing
// is unmatched once err is set.
type memEnd struct {
	first, last *memRequest
	posted      int
	err         error // the result of this side's requests
	own         bool  // err was caused by this side, not by the peer
}

func (d *memEnd) appendRequest(r *memRequest) {
	if d.last == nil {
		d.first = r
	} else {
		d.last.next = r
	}
	d.last = r
	d.posted++
}

// removeByTag removes and returns the oldest request under tag, nil if there is none.
func (d *memEnd) removeByTag(tag Tag) *memRequest {
	var before *memRequest
	for r := d.first; r != nil; before, r = r, r.next {
		if r.tag != tag {
			continue
		}
		if before == nil {
			d.first = r.next
		} else {
			before.next = r.next
		}
		if d.last == r {
			d.last = before
		}
		r.next = nil
		d.posted--
		return r
	}
	return nil
}

func (l *memPipe) postRequest(s side, tag Tag, p []byte) Request {
	l.mon.Lock()
	mine, other := &l.ends[s], &l.ends[1-s]
	if err := mine.err; err != nil {
		l.mon.Unlock()
		return ended{err}
	}
	r := l.newRequest(s, tag, p)
	match := other.removeByTag(tag)
	if match == nil {
		if mine.posted == MaxPosted {
			l.mon.Unlock()
			panic(fmt.Sprintf("transport: more than %d unmatched requests on one side from rank %d to rank %d",
				MaxPosted, l.from, l.to))
		}
		mine.appendRequest(r)
		l.mon.Unlock()
		return r
	}
	r.peer, match.peer = match, r
	l.mon.Unlock()

	if len(p) <= smallBytes {
		r.copyMessage()
		return r
	}
	r.state = requestMatched
	match.mon.Lock() // from here on match's waiter may copy the bytes and end r
	match.state = requestMatched
	match.mon.Wake()
	match.mon.Unlock()
	return r
}

// endSide ends the requests of side s with mine, and those of the other side with theirs.
func (l *memPipe) endSide(s side, mine, theirs error) {
	l.mon.Lock()
	ended := [2]*memRequest{l.ends[s].refuseWith(mine, true), l.ends[1-s].refuseWith(theirs, false)}
	errs := [2]error{l.ends[s].err, l.ends[1-s].err}
	l.mon.Unlock()
	for i, r := range ended {
		for r != nil {
			next := r.next // once it has ended, r belongs to its waiter
			r.next = nil
			r.endWith(errs[i])
			r = next
		}
	}
}

// refuseWith refuses later requests with err, and returns the unmatched ones.
func (d *memEnd) refuseWith(err error, own bool) *memRequest {
	if d.err == nil || own && !d.own {
		d.err, d.own = err, own
	}
	first := d.first
	d.first, d.last, d.posted = nil, nil, 0
	return first
}

// newRequest takes a request from the free list or makes one. The caller holds the
// monitor.
func (l *memPipe) newRequest(s side, tag Tag, p []byte) *memRequest {
	r := l.free
	if r == nil {
		r = &memRequest{pipe: l, mon: l.env.Monitor("mem request")}
	} else {
		l.free = r.next
	}
	r.next, r.peer, r.claimed = nil, nil, false
	r.side, r.tag, r.p = s, tag, p
	r.state, r.err = requestPosted, nil
	return r
}

type requestState int

const (
	requestPosted requestState = iota
	requestMatched
	requestEnded
	requestOver // waited for; in the free list
)

type memRequest struct {
	pipe    *memPipe
	next    *memRequest // in a memEnd or the free list
	peer    *memRequest // the other side's, once matched
	claimed bool        // a goroutine copies the bytes; guarded by the pipe's monitor
	side    side
	tag     Tag
	p       []byte

	mon   env.Monitor // guards state and err
	state requestState
	err   error
}

func (r *memRequest) endWith(err error) {
	r.mon.Lock()
	r.state, r.err = requestEnded, err
	r.mon.Wake()
	r.mon.Unlock()
}

// copyMessage copies a matched message and ends both requests. It holds no lock during
// the copy.
func (r *memRequest) copyMessage() {
	from, to := r, r.peer
	if r.side == receiving {
		from, to = r.peer, r
	}
	var err error
	if len(from.p) == len(to.p) {
		copy(to.p, from.p)
	} else {
		err = &LengthError{From: r.pipe.from, To: r.pipe.to, Tag: r.tag, Sent: len(from.p), Wants: len(to.p)}
	}
	from.endWith(nil)
	to.endWith(err)
}

// claimCopy reports whether the caller is the one that copies r's bytes.
func (r *memRequest) claimCopy() bool {
	r.pipe.mon.Lock()
	defer r.pipe.mon.Unlock()
	if r.claimed {
		return false
	}
	r.claimed, r.peer.claimed = true, true
	return true
}

func (r *memRequest) Wait() error {
	if r.waitWhile(requestPosted) == requestMatched {
		if r.claimCopy() {
			r.copyMessage()
		}
		r.waitWhile(requestMatched)
	}
	r.mon.Lock()
	if r.state == requestOver {
		r.mon.Unlock()
		panic("transport: Wait called twice on a request")
	}
	err := r.err
	r.state, r.peer, r.p, r.err = requestOver, nil, nil, nil
	r.mon.Unlock()

	l := r.pipe
	l.mon.Lock()
	r.next, l.free = l.free, r
	l.mon.Unlock()
	return err
}

// waitWhile waits until r has left state s, and returns the next state.
func (r *memRequest) waitWhile(s requestState) requestState {
	r.mon.Lock()
	defer r.mon.Unlock()
	for r.state == s {
		r.mon.Wait()
	}
	return r.state
}
