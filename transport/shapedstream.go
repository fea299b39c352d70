package transport

import (
	"encoding/binary"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// maxInFlight bounds the pieces of a stream that have begun to leave and that the
// Endpoint below has not taken.
const maxInFlight = 64

// lengthBytes is the header of a message below: its length, little-endian.
const lengthBytes = 8

// neverTag is that of a message which nobody sends.
const neverTag = ^Tag(0)

// stream is the messages of one (peer, tag) in one direction, in order.
type stream struct {
	f    *shaped
	way  side
	peer int
	tag  Tag

	flight *env.Queue[piece] // from leave to send
	lost   bool              // nothing can come through; guarded by shaped's monitor

	mon     env.Monitor // guards what follows
	waiting []*shapedMessage
	over    bool
}

type shapedMessage struct {
	p      []byte
	posted time.Duration
	done   *env.Event
}

// piece is a part of a message that is leaving.
type piece struct {
	of         *shapedMessage
	from, upTo int           // bytes of it
	due        time.Duration // when it is at the other end
}

func newStream(f *shaped, way side, peer int, tag Tag) *stream {
	s := &stream{f: f, way: way, peer: peer, tag: tag, mon: f.env.Monitor("link stream")}
	if way == sending {
		s.flight = env.NewQueue[piece](f.env, "link in flight", maxInFlight)
	}
	return s
}

func (s *stream) add(m *shapedMessage) {
	s.mon.Lock()
	s.waiting = append(s.waiting, m)
	s.mon.Wake()
	s.mon.Unlock()
}

// end lets the stream's goroutines go once all messages have ended.
func (s *stream) end() {
	s.mon.Lock()
	s.over = true
	s.mon.Wake()
	s.mon.Unlock()
}

// take waits for the next message; nil is the end.
func (s *stream) take() *shapedMessage {
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

// below moves p to or from the peer, and waits for it.
func (s *stream) below(p []byte) error { return s.f.below(s.way, s.peer, s.tag, p).Wait() }

func (s *stream) until(t time.Duration) { s.f.until(t, s) }

// watch hears of the loss of the peer, while what is sent there waits for the port.
func (s *stream) watch() {
	_ = s.f.Endpoint.Recv(s.peer, neverTag, nil).Wait()
	s.f.fail(s)
}

// leave takes messages through the port.
func (s *stream) leave() {
	defer s.flight.Close()
	for m := s.take(); m != nil; m = s.take() {
		for from := 0; from == 0 || from < len(m.p); from += s.f.pieceBytes {
			upTo := min(from+s.f.pieceBytes, len(m.p))
			due := time.Duration(0)
			if !s.f.failed(s) {
				due = s.f.link.Latency + s.f.out.depart(m.posted, s.f.link.takes(upTo-from), s.until)
			}
			s.flight.Put(piece{m, from, upTo, due})
		}
	}
}

// send hands pieces on when they are due, those of a message that failed not.
func (s *stream) send() {
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
				s.until(x.due)
			}
			binary.LittleEndian.PutUint64(header[:], uint64(n))
			err = s.below(header[:])
		}
		if err == nil && n > 0 {
			s.until(x.due)
			err = s.below(x.of.p[x.from:x.upTo])
		}
		if err != nil {
			s.f.fail(s)
		}
		if err != nil || x.upTo == n {
			x.of.done.Set(err)
		}
	}
}

// receive takes messages from below and through the port.
func (s *stream) receive() {
	for m := s.take(); m != nil; m = s.take() {
		m.done.Set(s.receiveInto(m.p))
	}
}

func (s *stream) receiveInto(p []byte) error {
	var header [lengthBytes]byte
	if err := s.below(header[:]); err != nil {
		return err
	}
	n := int(binary.LittleEndian.Uint64(header[:]))
	if n != len(p) {
		if err := s.discard(n); err != nil {
			return err
		}
		return &LengthError{From: s.peer, To: s.f.Rank(), Tag: s.tag, Sent: n, Wants: len(p)}
	}
	for from := 0; from < n; from += s.f.pieceBytes {
		upTo := min(from+s.f.pieceBytes, n)
		if err := s.below(p[from:upTo]); err != nil {
			return err
		}
		if through := s.f.in.arrive(s.f.link.takes(upTo - from)); upTo == n {
			s.until(through)
		}
	}
	return nil
}

// discard takes the pieces of a message of another length, so that its send ends.
func (s *stream) discard(n int) error {
	scratch := make([]byte, min(n, s.f.pieceBytes))
	for from := 0; from < n; from += s.f.pieceBytes {
		if err := s.below(scratch[:min(s.f.pieceBytes, n-from)]); err != nil {
			return err
		}
	}
	return nil
}
