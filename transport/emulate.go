package transport

import (
	"fmt"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// EmulateLink connects ep by an emulated link l: messages take the time that they would
// take if every rank had such a link to a network. The result replaces ep. All ranks of
// the world must be wrapped with the same l.
//
// Each rank has one full-duplex port. Its messages are cut into pieces and leave the port
// at the link's bandwidth. Messages to different ranks, or under different tags, are sent
// round-robin by piece, so that a short one does not wait for a long one. Each piece is
// passed to ep when it has left the port and the latency has passed. Received pieces pass
// the port of the receiver in the same way, so that several senders share its bandwidth.
// A receive is done no earlier than its last byte has passed the port. A send is done
// when its memory is free, which is one latency after its last byte has left.
//
// Only local clocks are read, so that ranks may be in different processes. Bytes for
// which no receive is posted occupy the receiving port only once one is posted.
func EmulateLink(e env.Env, ep Endpoint, l EmulatedLink) Endpoint {
	name := fmt.Sprintf("link of rank %d", ep.Rank())
	return &emulated{
		Endpoint:   ep,
		env:        e,
		link:       l,
		pieceBytes: l.pieceBytes(),
		out:        newPort(e, name+" out"),
		in:         newPort(e, name+" in"),
		mon:        e.Monitor(name),
	}
}

// emulated is an Endpoint behind a port. Each (peer, tag) in each direction is a stream,
// with goroutines of its own from its first message until Close.
//
// On the inner Endpoint, each message is a header with its length followed by the pieces,
// all under the message's tag. A stream has at most one of them unmatched at a time, so
// that the inner Endpoint has no more unmatched requests than the caller has posted. In
// addition each sending stream has a receive that ends only with the peer's loss.
type emulated struct {
	Endpoint
	env        env.Env
	link       EmulatedLink
	pieceBytes int
	out, in    *port

	mon     env.Monitor // guards the fields below, and lost of streams
	streams []*stream
	running int // number of goroutines of streams
	over    bool
}

func (f *emulated) Send(to int, tag Tag, p []byte) Request {
	checkPeer(f, to)
	return f.postMessage(sending, to, tag, p)
}

func (f *emulated) Recv(from int, tag Tag, p []byte) Request {
	checkPeer(f, from)
	return f.postMessage(receiving, from, tag, p)
}

func (f *emulated) postMessage(way side, peer int, tag Tag, p []byte) Request {
	f.mon.Lock()
	defer f.mon.Unlock()
	if f.over {
		return f.postInner(way, peer, tag, p)
	}
	m := &emulatedMessage{p: p, posted: f.env.Now(), done: env.NewEvent(f.env, "message on a link")}
	f.streamOf(way, peer, tag).addMessage(m)
	return m.done
}

// postInner posts to the inner Endpoint.
func (f *emulated) postInner(way side, peer int, tag Tag, p []byte) Request {
	if way == sending {
		return f.Endpoint.Send(peer, tag, p)
	}
	return f.Endpoint.Recv(peer, tag, p)
}

// streamOf finds a stream or starts it. The caller holds the monitor.
func (f *emulated) streamOf(way side, peer int, tag Tag) *stream {
	for _, s := range f.streams {
		if s.way == way && s.peer == peer && s.tag == tag {
			return s
		}
	}
	s := newStream(f, way, peer, tag)
	f.streams = append(f.streams, s)
	if way == sending {
		f.startTask("leave", s.departLoop)
		f.startTask("send", s.sendLoop)
		f.startTask("watch", s.watchPeer)
	} else {
		f.startTask("receive", s.receiveLoop)
	}
	return s
}

func (f *emulated) startTask(what string, run func()) {
	f.running++
	f.env.Go(fmt.Sprintf("link of rank %d: %s", f.Rank(), what), func() {
		run()
		f.mon.Lock()
		f.running--
		f.mon.Wake()
		f.mon.Unlock()
	})
}

// coarse is how long before its time a long wait ends. The rest is a short sleep that
// nothing interrupts.
const coarse = 2 * time.Millisecond

// waitUntil waits for a time, or until s has failed.
func (f *emulated) waitUntil(t time.Duration, s *stream) {
	if t <= f.env.Now() {
		return
	}
	f.mon.Lock()
	for !f.over && !s.lost && f.env.Now() < t-coarse {
		f.mon.WaitUntil(t - coarse)
	}
	f.mon.Unlock()
	if !f.hasFailed(s) {
		f.env.Sleep(t - f.env.Now())
	}
}

// failStream records that nothing can pass s any more, so that its messages no longer
// wait for the port.
func (f *emulated) failStream(s *stream) {
	f.mon.Lock()
	s.lost = true
	f.mon.Wake()
	f.mon.Unlock()
}

func (f *emulated) hasFailed(s *stream) bool {
	f.mon.Lock()
	defer f.mon.Unlock()
	return f.over || s.lost
}

func (f *emulated) Abort(cause error) {
	f.Endpoint.Abort(cause)
	f.mon.Lock()
	defer f.mon.Unlock()
	f.over = true
	f.mon.Wake()
	for _, s := range f.streams {
		s.endStream()
	}
}

func (f *emulated) Close() error {
	f.Abort(ErrClosed)
	err := f.Endpoint.Close()
	f.mon.Lock()
	defer f.mon.Unlock()
	for f.running > 0 {
		f.mon.Wait()
	}
	return err
}
