package transport

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// ErrInjected is the cause of a PeerLost that an Injector made.
var ErrInjected = errors.New("injected fault")

// Injector decides what happens to each message. Faults is one, made of rules.
// It is called from several goroutines, one at a time for each endpoint.
type Injector interface {
	Inject(Message) Fault
}

// Message is one end of a message, as it is posted.
type Message struct {
	Rank, Peer int // who posts it, and the other end
	Sending    bool
	Number     uint64 // of Rank's messages with Peer in this direction, from 0
}

// Fault is what happens to a message. The zero Fault is none.
type Fault struct {
	// Delay is how long the message is held back, with those after it under the
	// same tag; others may overtake it.
	Delay time.Duration
	// Stall holds it back until the endpoint is closed or aborted, as if the
	// process had been stopped.
	Stall bool
	// Lose aborts the endpoint with PeerLost of the other end.
	Lose bool
	// Die closes the endpoint.
	Die bool
}

// Wrap puts inj's faults under ep, which the result replaces. The contract holds:
// what is held back keeps its order per tag, and whoever is lost stays lost.
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
	e.Go(name, f.release)
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

	mon            env.Monitor // guards what follows, and posting to Endpoint
	sent, received []uint64    // by peer
	held           []*held     // by time due, then as posted; MaxPosted bounds it
	over           bool
}

const never = time.Duration(math.MaxInt64)

// held is a message that was held back, and its Request.
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
	return f.post(&held{f: f, sending: true, peer: to, tag: tag, p: p}, f.sent)
}

func (f *faulty) Recv(from int, tag Tag, p []byte) Request {
	return f.post(&held{f: f, sending: false, peer: from, tag: tag, p: p}, f.received)
}

func (f *faulty) post(h *held, count []uint64) Request {
	checkPeer(f, h.peer)
	f.mon.Lock()
	defer f.mon.Unlock()
	if f.over {
		return f.forward(h)
	}
	fault := f.inj.Inject(Message{Rank: f.Rank(), Peer: h.peer, Sending: h.sending, Number: count[h.peer]})
	count[h.peer]++
	switch {
	case fault.Die:
		f.abort(ErrClosed)
		return f.forward(h)
	case fault.Lose:
		f.abort(&PeerLost{Rank: h.peer, Generation: f.Generation(), Cause: ErrInjected})
		return f.forward(h)
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
		return f.forward(h)
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

// forward posts h below. The caller holds the monitor, so that messages of one
// tag keep their order.
func (f *faulty) forward(h *held) Request {
	if h.sending {
		return f.Endpoint.Send(h.peer, h.tag, h.p)
	}
	return f.Endpoint.Recv(h.peer, h.tag, h.p)
}

// release posts what was held back when it is due, and all of it when the
// endpoint is over, which ends it.
func (f *faulty) release() {
	f.mon.Lock()
	for {
		switch {
		case len(f.held) > 0 && (f.over || f.held[0].due <= f.env.Now()):
			h := f.held[0]
			f.held = slices.Delete(f.held, 0, 1)
			h.inner = f.forward(h)
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

// abort is Abort for a caller that holds the monitor.
func (f *faulty) abort(cause error) {
	f.Endpoint.Abort(cause)
	f.over = true
	f.mon.Wake()
}

func (f *faulty) Abort(cause error) {
	f.mon.Lock()
	f.abort(cause)
	f.mon.Unlock()
}

func (f *faulty) Close() error {
	f.Abort(ErrClosed)
	err := f.Endpoint.Close()
	_ = f.stopped.Wait()
	return err
}
