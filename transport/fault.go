package transport

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// ErrInjected is the cause of a PeerLost that an Injector caused.
var ErrInjected = errors.New("injected fault")

// Injector decides on the fault of each message. Faults is one made of rules. It is
// called from several goroutines, one at a time for each endpoint.
type Injector interface {
	Inject(Message) Fault
}

// Message describes one end of a message when it is posted.
type Message struct {
	Rank, Peer int // the poster, and the other end
	Sending    bool
	Number     uint64 // number of Rank's messages with Peer in this direction, from 0
}

// Fault is what happens to a message. The zero Fault is none.
type Fault struct {
	// Delay is how long the message is delayed. Later messages under the same tag are
	// delayed too, and those under other tags may overtake it.
	Delay time.Duration
	// Stall delays it until the endpoint is closed or aborted, as if the process had been
	// stopped.
	Stall bool
	// Lose aborts the endpoint with PeerLost of the other end.
	Lose bool
	// Die closes the endpoint.
	Die bool
}

// Wrap injects the faults of inj below the returned endpoint, which replaces ep. The
// contract still holds: delayed messages keep their order per tag, and a lost peer stays
// lost.
func Wrap(e env.Env, ep Endpoint, inj Injector) Endpoint {
	name := fmt.Sprintf("faults of rank %d", ep.Rank())
	f := &faulty{
		Endpoint: ep,
		env:      e,
		inj:      inj,
		stopped:  env.NewEvent(e, name+" stopped"),
		mon:      e.Monitor(name),
		sent:     make([]uint64, ep.Size()),
		received: make([]uint64, ep.Size()),
	}
	e.Go(name, f.releaseLoop)
	if v, ok := ep.(Viewer); ok {
		return struct {
			*faulty
			viewing
		}{f, v}
	}
	return f
}

type faulty struct {
	Endpoint
	env     env.Env
	inj     Injector
	stopped *env.Event

	mon            env.Monitor // guards the fields below, and posting to Endpoint
	sent, received []uint64    // by peer
	held           []*held     // by due time, then in the order of posting; MaxPosted limits it
	over           bool
}

const never = time.Duration(math.MaxInt64)

// held is a delayed message, and its Request.
type held struct {
	f       *faulty
	due     time.Duration
	sending bool
	peer    int
	tag     Tag
	p       []byte
	inner   Request // nil until it is released
}

func (h *held) Wait() error {
	h.f.mon.Lock()
	for h.inner == nil {
		h.f.mon.Wait()
	}
	h.f.mon.Unlock()
	return h.inner.Wait()
}

func (f *faulty) Send(to int, tag Tag, p []byte) Request {
	return f.postMessage(&held{f: f, sending: true, peer: to, tag: tag, p: p}, f.sent)
}

func (f *faulty) Recv(from int, tag Tag, p []byte) Request {
	return f.postMessage(&held{f: f, sending: false, peer: from, tag: tag, p: p}, f.received)
}

func (f *faulty) postMessage(h *held, count []uint64) Request {
	checkPeer(f, h.peer)
	f.mon.Lock()
	defer f.mon.Unlock()
	if f.over {
		return f.forwardMessage(h)
	}
	fault := f.inj.Inject(Message{Rank: f.Rank(), Peer: h.peer, Sending: h.sending, Number: count[h.peer]})
	count[h.peer]++
	switch {
	case fault.Die:
		f.abortLocked(ErrClosed)
		return f.forwardMessage(h)
	case fault.Lose:
		f.abortLocked(&PeerLost{Rank: h.peer, Generation: f.Generation(), Cause: ErrInjected})
		return f.forwardMessage(h)
	case fault.Stall:
		h.due = never
	case fault.Delay > 0:
		h.due = f.env.Now() + fault.Delay
	}
	for _, before := range f.held {
		if before.sending == h.sending && before.peer == h.peer && before.tag == h.tag {
			h.due = max(h.due, before.due)
		}
	}
	if h.due == 0 {
		return f.forwardMessage(h)
	}
	i, _ := slices.BinarySearchFunc(f.held, h.due, func(x *held, due time.Duration) int {
		if x.due <= due {
			return -1
		}
		return 1
	})
	f.held = slices.Insert(f.held, i, h)
	f.mon.Wake()
	return h
}

// forwardMessage posts h to the wrapped endpoint. The caller holds the monitor, so that
// messages of one tag keep their order.
func (f *faulty) forwardMessage(h *held) Request {
	if h.sending {
		return f.Endpoint.Send(h.peer, h.tag, h.p)
	}
	return f.Endpoint.Recv(h.peer, h.tag, h.p)
}

// releaseLoop posts each delayed message when it is due. When the endpoint is over, it
// posts all of them and ends.
func (f *faulty) releaseLoop() {
	f.mon.Lock()
	for {
		switch {
		case len(f.held) > 0 && (f.over || f.held[0].due <= f.env.Now()):
			h := f.held[0]
			f.held = slices.Delete(f.held, 0, 1)
			h.inner = f.forwardMessage(h)
			f.mon.Wake()
		case f.over:
			f.mon.Unlock()
			f.stopped.Set(nil)
			return
		case len(f.held) > 0 && f.held[0].due < never:
			f.mon.WaitUntil(f.held[0].due)
		default:
			f.mon.Wait()
		}
	}
}

// abortLocked is Abort for a caller that holds the monitor.
func (f *faulty) abortLocked(cause error) {
	f.Endpoint.Abort(cause)
	f.over = true
	f.mon.Wake()
}

func (f *faulty) Abort(cause error) {
	f.mon.Lock()
	f.abortLocked(cause)
	f.mon.Unlock()
}

func (f *faulty) Close() error {
	f.Abort(ErrClosed)
	err := f.Endpoint.Close()
	_ = f.stopped.Wait()
	return err
}
