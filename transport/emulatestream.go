package transport

import (
	"encoding/binary"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// maxInFlight limits the pieces of a stream that have begun to leave and that the inner
// Endpoint has not completed.
const maxInFlight = 64

// lengthBytes is the header of an inner message: its length, little-endian.
const lengthBytes = 8

// neverTag is the tag of a receive for which no message is sent.
const neverTag = ^Tag(0)

// stream is the sequence of messages of one (peer, tag) in one direction.
type stream struct {
	f    *emulated
	way  side
	peer int
	tag  Tag

	flight *env.Queue[piece] // from departLoop to sendLoop
	lost   bool              // nothing can pass any more; guarded by the monitor of emulated

	mon     env.Monitor // guards the fields below
	waiting []*emulatedMessage
	over    bool
}

type emulatedMessage struct {
	p      []byte
	posted time.Duration
	done   *env.Event
}

// piece is a part of a message that leaves the port.
type piece struct {
	of         *emulatedMessage
	from, upTo int           // range of its bytes
	due        time.Duration // when it reaches the other end
}

func newStream(f *emulated, way side, peer int, tag Tag) *stream {
	s := &stream{f: f, way: way, peer: peer, tag: tag, mon: f.env.Monitor("link stream")}
	if way == sending {
		s.flight = env.NewQueue[piece](f.env, "link in flight", maxInFlight)
	}
	return s
}

func (s *stream) addMessage(m *emulatedMessage) {
	s.mon.Lock()
	s.waiting = append(s.waiting, m)
	s.mon.Wake()
	s.mon.Unlock()
}

// endStream ends the stream's goroutines once all messages have ended.
func (s *stream) endStream() {
	s.mon.Lock()
	s.over = true
	s.mon.Wake()
	s.mon.Unlock()
}

// nextMessage waits for the next message. It returns nil at the end.
func (s *stream) nextMessage() *emulatedMessage {
	s.mon.Lock()
	defer s.mon.Unlock()
	for len(s.waiting) == 0 {
		if s.over {
			return nil
		}
		s.mon.Wait()
	}
	m := s.waiting[0]
	s.waiting[0] = nil
	s.waiting = s.waiting[1:]
	return m
}

// transferInner sends or receives p over the inner Endpoint, and waits for it.
func (s *stream) transferInner(p []byte) error { return s.f.postInner(s.way, s.peer, s.tag, p).Wait() }

func (s *stream) waitUntil(t time.Duration) { s.f.waitUntil(t, s) }

// watchPeer notices the loss of the peer while messages to it wait for the port.
func (s *stream) watchPeer() {
	_ = s.f.Endpoint.Recv(s.peer, neverTag, nil).Wait()
	s.f.failStream(s)
}

// departLoop passes messages through the port, piece by piece.
func (s *stream) departLoop() {
	defer s.flight.Close()
	for m := s.nextMessage(); m != nil; m = s.nextMessage() {
		for from := 0; from == 0 || from < len(m.p); from += s.f.pieceBytes {
			upTo := min(from+s.f.pieceBytes, len(m.p))
			due := time.Duration(0)
			if !s.f.hasFailed(s) {
				due = s.f.link.Latency + s.f.out.departPiece(m.posted, s.f.link.passTime(upTo-from), s.waitUntil)
			}
			s.flight.Put(piece{m, from, upTo, due})
		}
	}
}

// sendLoop sends pieces when they are due. It skips the remaining pieces of a message
// that failed.
func (s *stream) sendLoop() {
	var header [lengthBytes]byte
	var err error
	for {
		x, ok := s.flight.Get()
		if !ok {
			return
		}
		n := len(x.of.p)
		if x.from == 0 {
			if n == 0 {
				s.waitUntil(x.due)
			}
			binary.LittleEndian.PutUint64(header[:], uint64(n))
			err = s.transferInner(header[:])
		}
		if err == nil && n > 0 {
			s.waitUntil(x.due)
			err = s.transferInner(x.of.p[x.from:x.upTo])
		}
		if err != nil {
			s.f.failStream(s)
		}
		if err != nil || x.upTo == n {
			x.of.done.Set(err)
		}
	}
}

// receiveLoop receives messages from the inner Endpoint and passes them through the port.
func (s *stream) receiveLoop() {
	for m := s.nextMessage(); m != nil; m = s.nextMessage() {
		m.done.Set(s.receiveInto(m.p))
	}
}

func (s *stream) receiveInto(p []byte) error {
	var header [lengthBytes]byte
	if err := s.transferInner(header[:]); err != nil {
		return err
	}
	n := int(binary.LittleEndian.Uint64(header[:]))
	if n != len(p) {
		if err := s.discardMessage(n); err != nil {
			return err
		}
		return &LengthError{From: s.peer, To: s.f.Rank(), Tag: s.tag, Sent: n, Wants: len(p)}
	}
	for from := 0; from < n; from += s.f.pieceBytes {
		upTo := min(from+s.f.pieceBytes, n)
		if err := s.transferInner(p[from:upTo]); err != nil {
			return err
		}
		if through := s.f.in.arrivePiece(s.f.link.passTime(upTo - from)); upTo == n {
			s.waitUntil(through)
		}
	}
	return nil
}

// discardMessage receives the pieces of a message of the wrong length, so that its send
// ends.
func (s *stream) discardMessage(n int) error {
	scratch := make([]byte, min(n, s.f.pieceBytes))
	for from := 0; from < n; from += s.f.pieceBytes {
		if err := s.transferInner(scratch[:min(s.f.pieceBytes, n-from)]); err != nil {
			return err
		}
	}
	return nil
}
