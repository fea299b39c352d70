package transport

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/env"
)

// smallBytes is how long a message may be to be copied where it is posted.
const smallBytes = 4096

// NewMem makes a world of n ranks in one process. Messages are copied once, from
// the sender's memory to the receiver's, so nothing is ever held: a small one by
// whichever side posts second, a larger one by whichever waits first. So both
// sides share the work, and a receiver that waits has the bytes in its own cache.
// Posting and waiting allocate nothing once the requests of a pair have been made.
func NewMem(e env.Env, n int, generation uint64) []Endpoint {
	if n < 1 {
		panic(fmt.Sprintf("transport: a world of %d ranks", n))
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

// newMemWorld has lanes between those ranks of a world of n that are here.
func newMemWorld(e env.Env, n int, generation uint64, here []int) *memWorld {
	w := &memWorld{n: n, generation: generation, here: here, lanes: make([]memLane, n*n)}
	for _, from := range here {
		for _, to := range here {
			if from != to {
				l := w.lane(from, to)
				l.env, l.from, l.to = e, from, to
				l.mon = e.Monitor(fmt.Sprintf("mem lane %d to %d", from, to))
			}
		}
	}
	return w
}

type memWorld struct {
	n          int
	generation uint64
	here       []int
	lanes      []memLane // [from*n + to]
}

func (w *memWorld) lane(from, to int) *memLane { return &w.lanes[from*w.n+to] }

type memEndpoint struct {
	world *memWorld
	rank  int
}

func (ep *memEndpoint) Rank() int          { return ep.rank }
func (ep *memEndpoint) Size() int          { return ep.world.n }
func (ep *memEndpoint) Generation() uint64 { return ep.world.generation }

func (ep *memEndpoint) Send(to int, tag Tag, p []byte) Request {
	checkPeer(ep, to)
	return ep.world.lane(ep.rank, to).post(sending, tag, p)
}

func (ep *memEndpoint) Recv(from int, tag Tag, p []byte) Request {
	checkPeer(ep, from)
	return ep.world.lane(from, ep.rank).post(receiving, tag, p)
}

func (ep *memEndpoint) Abort(cause error) {
	seen := lossSeenByPeers(ep.rank, ep.world.generation, cause)
	for _, peer := range ep.world.here {
		if peer != ep.rank {
			ep.world.lane(ep.rank, peer).end(sending, cause, seen)
			ep.world.lane(peer, ep.rank).end(receiving, cause, seen)
		}
	}
}

func (ep *memEndpoint) Close() error {
	ep.Abort(ErrClosed)
	return nil
}

// side is an end of a lane.
type side int

const (
	sending side = iota
	receiving
)

// memLane carries the messages from one rank to another.
type memLane struct {
	env      env.Env
	from, to int

	mon  env.Monitor
	ends [2]memEnd   // by side
	free *memRequest // requests that are over
}

// memEnd holds what one side has posted and the other has not matched. The list
// is scanned for a tag: it is short, and its order is the same in every run.
//
// Invariant: no send and receive of one tag are unmatched at the same time, and
// nothing is unmatched once err is set.
type memEnd struct {
	first, last *memRequest
	posted      int
	err         error // what this side's requests end with
	own         bool  // err is this side's own doing, not the peer's
}

func (d *memEnd) push(r *memRequest) {
	if d.last == nil {
		d.first = r
	} else {
		d.last.next = r
	}
	d.last = r
	d.posted++
}

// take removes the oldest request under tag, nil if there is none.
func (d *memEnd) take(tag Tag) *memRequest {
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

func (l *memLane) post(s side, tag Tag, p []byte) Request {
	l.mon.Lock()
	mine, other := &l.ends[s], &l.ends[1-s]
	if err := mine.err; err != nil {
		l.mon.Unlock()
		return ended{err}
	}
	r := l.request(s, tag, p)
	match := other.take(tag)
	if match == nil {
		if mine.posted == MaxPosted {
			l.mon.Unlock()
			panic(fmt.Sprintf("transport: more than %d unmatched requests from rank %d to rank %d on one side",
				MaxPosted, l.from, l.to))
		}
		mine.push(r)
		l.mon.Unlock()
		return r
	}
	r.peer, match.peer = match, r
	l.mon.Unlock()

	if len(p) <= smallBytes {
		r.move()
		return r
	}
	r.state = requestMatched
	match.mon.Lock() // from here on match's waiter may move the bytes and end r
	match.state = requestMatched
	match.mon.Wake()
	match.mon.Unlock()
	return r
}

// end ends what side s has posted with mine, and what the other has with theirs.
func (l *memLane) end(s side, mine, theirs error) {
	l.mon.Lock()
	ended := [2]*memRequest{l.ends[s].stop(mine, true), l.ends[1-s].stop(theirs, false)}
	errs := [2]error{l.ends[s].err, l.ends[1-s].err}
	l.mon.Unlock()
	for i, r := range ended {
		for r != nil {
			next := r.next // r is its waiter's once it has ended
			r.next = nil
			r.end(errs[i])
			r = next
		}
	}
}

// stop refuses requests from now on and returns those that were unmatched.
func (d *memEnd) stop(err error, own bool) *memRequest {
	if d.err == nil || own && !d.own {
		d.err, d.own = err, own
	}
	first := d.first
	d.first, d.last, d.posted = nil, nil, 0
	return first
}

// request takes a request from the free list; the caller holds the monitor.
func (l *memLane) request(s side, tag Tag, p []byte) *memRequest {
	r := l.free
	if r == nil {
		r = &memRequest{lane: l, mon: l.env.Monitor("mem request")}
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
	lane    *memLane
	next    *memRequest // in a memEnd or the free list
	peer    *memRequest // the other side's, once matched
	claimed bool        // someone moves the bytes; guarded by the lane's monitor
	side    side
	tag     Tag
	p       []byte

	mon   env.Monitor // guards what follows
	state requestState
	err   error
}

func (r *memRequest) end(err error) {
	r.mon.Lock()
	r.state, r.err = requestEnded, err
	r.mon.Wake()
	r.mon.Unlock()
}

// move copies a matched message and ends both requests. It holds no lock while
// the bytes move.
func (r *memRequest) move() {
	from, to := r, r.peer
	if r.side == receiving {
		from, to = r.peer, r
	}
	var err error
	if len(from.p) == len(to.p) {
		copy(to.p, from.p)
	} else {
		err = &LengthError{From: r.lane.from, To: r.lane.to, Tag: r.tag, Sent: len(from.p), Wants: len(to.p)}
	}
	from.end(nil)
	to.end(err)
}

// claim reports whether the caller is the one who moves r's bytes.
func (r *memRequest) claim() bool {
	r.lane.mon.Lock()
	defer r.lane.mon.Unlock()
	if r.claimed {
		return false
	}
	r.claimed, r.peer.claimed = true, true
	return true
}

func (r *memRequest) Wait() error {
	if r.await(requestPosted) == requestMatched {
		if r.claim() {
			r.move()
		}
		r.await(requestMatched)
	}
	r.mon.Lock()
	if r.state == requestOver {
		r.mon.Unlock()
		panic("transport: Wait called twice on a request")
	}
	err := r.err
	r.state, r.peer, r.p, r.err = requestOver, nil, nil, nil
	r.mon.Unlock()

	l := r.lane
	l.mon.Lock()
	r.next, l.free = l.free, r
	l.mon.Unlock()
	return err
}

// await waits until r has left a state, and returns the next one.
func (r *memRequest) await(s requestState) requestState {
	r.mon.Lock()
	defer r.mon.Unlock()
	for r.state == s {
		r.mon.Wait()
	}
	return r.state
}
