package transport

import (
	"fmt"

	"github.com/ecrec/ecrec/internal/env"
)

func (ep *networkEndpoint) Rank() int          { return ep.rank }
func (ep *networkEndpoint) Size() int          { return len(ep.net.eps) }
func (ep *networkEndpoint) Generation() uint64 { return ep.net.generation }

func (ep *networkEndpoint) Send(to int, tag Tag, p []byte) Request {
	checkPeer(ep, to)
	return ep.postMessage(sending, to, tag, p)
}

func (ep *networkEndpoint) Recv(from int, tag Tag, p []byte) Request {
	checkPeer(ep, from)
	return ep.postMessage(receiving, from, tag, p)
}

func (ep *networkEndpoint) postMessage(way side, peer int, tag Tag, p []byte) Request {
	w := ep.net
	w.mon.Lock()
	defer w.mon.Unlock()
	if ep.cause != nil {
		return ended{ep.cause}
	}
	if err := ep.lost[peer]; err != nil {
		return ended{err}
	}
	other := w.eps[peer]
	m := &networkMessage{p: p, posted: w.env.Now(), done: env.NewEvent(w.env, "message on a network")}
	if way == sending {
		m.stream = ep.streamTo(other, tag)
	} else {
		m.stream = other.streamTo(ep, tag)
	}
	s := m.stream
	if ep.posted[way][peer]++; ep.posted[way][peer] > MaxPosted {
		panic(fmt.Sprintf("transport: more than %d unmatched requests of rank %d with rank %d on one side", MaxPosted, ep.rank, peer))
	}
	if way == sending {
		s.sends, s.unknown = append(s.sends, m), append(s.unknown, m)
	} else {
		s.receives = append(s.receives, m)
	}
	s.matchMessages()
	s.takeTurn()
	s.from.sendNext()
	return m
}

// streamTo finds a stream of a sender, or makes it.
func (ep *networkEndpoint) streamTo(to *networkEndpoint, tag Tag) *networkStream {
	for _, s := range ep.streams[to.rank] {
		if s.tag == tag {
			return s
		}
	}
	s := &networkStream{from: ep, to: to, tag: tag}
	ep.streams[to.rank] = append(ep.streams[to.rank], s)
	return s
}

// matchMessages matches messages with receives, in order. Pieces that wait for a receive arrive now.
func (s *networkStream) matchMessages() {
	for len(s.unknown) > 0 && len(s.receives) > 0 {
		m, r := s.unknown[0], s.receives[0]
		s.unknown, s.receives = s.unknown[1:], s.receives[1:]
		s.from.posted[sending][s.to.rank]--
		s.to.posted[receiving][s.from.rank]--
		m.peer, s.matched = r, append(s.matched, m)
		if m.wrong = len(m.p) != len(r.p); m.wrong {
			r.done.Set(&LengthError{From: s.from.rank, To: s.to.rank, Tag: s.tag, Sent: len(m.p), Wants: len(r.p)})
		}
		for _, x := range m.early {
			s.receivePiece(x, r.posted)
		}
		m.early = nil
	}
}

func (ep *networkEndpoint) Abort(cause error) {
	w := ep.net
	w.mon.Lock()
	defer w.mon.Unlock()
	if ep.cause != nil {
		return
	}
	ep.cause = cause
	seen := lossSeenByPeers(ep.rank, w.generation, cause)
	for _, peer := range w.eps {
		if peer == ep {
			continue
		}
		if peer.lost[ep.rank] == nil {
			peer.lost[ep.rank] = seen
		}
		for _, s := range ep.streams[peer.rank] {
			s.endStream(cause, seen)
		}
		for _, s := range peer.streams[ep.rank] {
			s.endStream(seen, cause)
		}
	}
	for _, x := range w.events { // bytes of the last messages are there, and their time has not come
		if x.kind == messageReceived && x.recv.stream.to == ep {
			x.recv.done.Set(cause)
		}
	}
	ep.turns = nil
	if w.open--; w.open == 0 {
		w.events = nil
		w.mon.Wake()
	}
}

// endStream ends all messages of a stream with the errors of its sender and its receiver.
func (s *networkStream) endStream(sender, receiver error) {
	for _, m := range s.unknown {
		m.done.Set(sender)
	}
	for _, r := range s.receives {
		r.done.Set(receiver)
	}
	for _, m := range s.matched {
		m.done.Set(sender)
		m.peer.done.Set(receiver)
	}
	s.over = true
	s.sends, s.unknown, s.receives, s.matched = nil, nil, nil, nil
}

func (ep *networkEndpoint) Close() error {
	ep.Abort(ErrClosed)
	return nil
}
