package transport

import (
	"fmt"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// WrapLink gives ep a port of link l: messages of its rank take the time that they
// would take over such links between all ranks. The result replaces ep; all ranks
// of the world are wrapped, with the same l.
//
// Each rank has one full-duplex port. What it sends leaves the port at the link's
// bandwidth, cut into pieces; messages to different ranks, or under different tags,
// take turns piece by piece, so a short one does not wait for a long one. Each
// piece is handed to ep when it has left and the latency has passed. What arrives
// at a rank passes its port in the same way, so that many who send to one share its
// bandwidth. A receive is done no earlier than the last byte has come through; a
// send when its memory is free, which is a latency after its last byte has left.
//
// Only local clocks are read, so ranks may be in different processes. Bytes that
// nobody has posted a receive for take the receiving port's time once somebody has.
func WrapLink(e env.Env, ep Endpoint, l Link) Endpoint {
	name := fmt.Sprintf("link of rank %d", ep.Rank())
	return &shaped{
		Endpoint:   ep,
		env:        e,
		link:       l,
		pieceBytes: l.pieceBytes(),
		out:        newPort(e, name+" out"),
		in:         newPort(e, name+" in"),
		mon:        e.Monitor(name),
	}
}

// shaped is an Endpoint behind a port. Each (peer, tag) in each direction is a
// stream, with goroutines of its own from its first message until Close.
//
// On the Endpoint below, each message is a header with its length and the pieces,
// all under the message's tag. A stream has one of them unmatched at a time, so
// there are no more there than the caller has posted here; and, of each stream that
// sends, a receive that only the peer's loss ends.
type shaped struct {
	Endpoint
	env        env.Env
	link       Link
	pieceBytes int
	out, in    *port

	mon     env.Monitor // guards what follows, and lost of streams
	streams []*stream
	running int // goroutines of streams
	over    bool
}

func (f *shaped) Send(to int, tag Tag, p []byte) Request {
	checkPeer(f, to)
	return f.post(sending, to, tag, p)
}

func (f *shaped) Recv(from int, tag Tag, p []byte) Request {
	checkPeer(f, from)
	return f.post(receiving, from, tag, p)
}

func (f *shaped) post(way side, peer int, tag Tag, p []byte) Request {
	f.mon.Lock()
	defer f.mon.Unlock()
	if f.over {
		return f.below(way, peer, tag, p)
	}
	m := &shapedMessage{p: p, posted: f.env.Now(), done: env.NewEvent(f.env, "message on a link")}
	f.stream(way, peer, tag).add(m)
	return m.done
}

// below posts to the Endpoint below.
func (f *shaped) below(way side, peer int, tag Tag, p []byte) Request {
	if way == sending {
		return f.Endpoint.Send(peer, tag, p)
	}
	return f.Endpoint.Recv(peer, tag, p)
}

// stream finds a stream, or begins it; the caller holds the monitor.
func (f *shaped) stream(way side, peer int, tag Tag) *stream {
	for _, s := range f.streams {
		if s.way == way && s.peer == peer && s.tag == tag {
			return s
		}
	}
	s := newStream(f, way, peer, tag)
	f.streams = append(f.streams, s)
	if way == sending {
		f.start("leave", s.leave)
		f.start("send", s.send)
		f.start("watch", s.watch)
	} else {
		f.start("receive", s.receive)
	}
	return s
}

func (f *shaped) start(what string, run func()) {
	f.running++
	f.env.Go(fmt.Sprintf("link of rank %d: %s", f.Rank(), what), func() {
		run()
		f.mon.Lock()
		f.running--
		f.mon.Wake()
		f.mon.Unlock()
	})
}

// coarse is how long before its time a long wait ends, to go on as a short one, which
// nothing ends.
const coarse = 2 * time.Millisecond

// until waits for a time, or until nothing can come through s any more.
func (f *shaped) until(t time.Duration, s *stream) {
	if t <= f.env.Now() {
		return
	}
	f.mon.Lock()
	for !f.over && !s.lost && f.env.Now() < t-coarse {
		f.mon.WaitUntil(t - coarse)
	}
	f.mon.Unlock()
	if !f.failed(s) {
		f.env.Sleep(t - f.env.Now())
	}
}

// fail says that nothing can come through s any more: nobody there waits for the
// port from now on.
func (f *shaped) fail(s *stream) {
	f.mon.Lock()
	s.lost = true
	f.mon.Wake()
	f.mon.Unlock()
}

func (f *shaped) failed(s *stream) bool {
	f.mon.Lock()
	defer f.mon.Unlock()
	return f.over || s.lost
}

func (f *shaped) Abort(cause error) {
	f.Endpoint.Abort(cause)
	f.mon.Lock()
	defer f.mon.Unlock()
	f.over = true
	f.mon.Wake()
	for _, s := range f.streams {
		s.end()
	}
}

func (f *shaped) Close() error {
	f.Abort(ErrClosed)
	err := f.Endpoint.Close()
	f.mon.Lock()
	defer f.mon.Unlock()
	for f.running > 0 {
		f.mon.Wait()
	}
	return err
}
