package transport

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// NewNetwork returns the endpoints of a world of n ranks of one process. Messages take the time that they would take if every
// rank had a link l to a network. It is the model of EmulateLink, without goroutines for each stream of messages: in virtual
// time (package internal/env/virtual) worlds of many ranks are cheap, and times are exact. With env.Real it keeps the contract,
// but times are late by what the system needs to wake a goroutine; measure there with EmulateLink.
//
// The model: each rank has one full-duplex port. Messages are cut into pieces, which leave the port one after the other at
// the link's bandwidth, round-robin over (receiver, tag). A piece reaches the receiver's port one latency after its last byte has
// left. That port receives the pieces of all senders one after the other at the same bandwidth, in the order in which they reach
// it; an idle port receives a piece while it arrives. With b bytes to one peer and nothing else, the receive is done after
//
//	b / bandwidth + latency
//
// and if each of n ranks sends b bytes to each of the others, all are done after (n-1) b / bandwidth + latency. The network
// between the ports has no limit. Bytes for which no receive is posted wait, and occupy the receiving port once one is posted; a
// stream has at most 64 pieces on the way. A send is done when its last byte has reached a posted receive.
//
// A world of one process has no other delay: neither of system calls nor of copies.
func NewNetwork(e env.Env, n int, generation uint64, l EmulatedLink) []Endpoint {
	if n < 1 {
		panic(fmt.Sprintf("transport: NewNetwork of %d ranks", n))
	}
	w := &network{env: e, link: l, generation: generation, mon: e.Monitor("network"), pieceBytes: l.pieceBytes(), wakeAt: farFuture}
	eps := make([]Endpoint, n)
	for r := range n {
		ep := &networkEndpoint{net: w, rank: r, lost: make([]error, n), posted: [2][]int{make([]int, n), make([]int, n)},
			streams: make([][]*networkStream, n)}
		w.eps, eps[r] = append(w.eps, ep), ep
	}
	w.open = n
	e.Go("network", w.runEvents)
	return eps
}

// farFuture is the time of no event.
const farFuture = time.Duration(1<<63 - 1)

// network is a world. A single task handles its events in the order of their times.
type network struct {
	env        env.Env
	link       EmulatedLink
	generation uint64
	pieceBytes int

	mon    env.Monitor // guards everything below, and all endpoints
	eps    []*networkEndpoint
	open   int // endpoints that are not closed
	events networkEvents
	count  int64         // of events so far
	wakeAt time.Duration // when the task wakes at the latest
}

// networkEndpoint is a rank with its port.
type networkEndpoint struct {
	net     *network
	rank    int
	cause   error              // it was closed or aborted
	lost    []error            // by peer
	posted  [2][]int           // unmatched requests, by side and peer
	streams [][]*networkStream // by receiver, in the order of their first requests

	outFree, inFree time.Duration    // when the last piece has passed, in each direction
	leaving         bool             // a piece leaves the port
	turns           []*networkStream // that have a piece to send, in the order of their turns
}

// networkStream is the messages of one sender, receiver and tag.
type networkStream struct {
	from, to *networkEndpoint
	tag      Tag
	sends    []*networkMessage // whose last piece has not begun to leave, in order
	unknown  []*networkMessage // that no receive has matched, in order
	receives []*networkMessage // that no message has matched, in order
	matched  []*networkMessage // that have not arrived completely, in order
	flight   int               // pieces on the way
	inTurn   bool              // in from.turns
	over     bool              // one of the ranks is lost
}

// networkMessage is a request. A send that is matched has the receive in peer.
type networkMessage struct {
	stream *networkStream
	p      []byte
	posted time.Duration
	done   *env.Event
	peer   *networkMessage
	wrong  bool           // the receive has another length
	next   int            // first byte that has not begun to leave
	early  []networkPiece // that arrived before the receive was posted
}

func (m *networkMessage) Wait() error { return m.done.Wait() }

// networkPiece is a part of a message on the way.
type networkPiece struct {
	of         *networkMessage
	from, upTo int
}

// networkEvent is a thing that happens at a time.
type networkEvent struct {
	at    time.Duration
	count int64 // orders events of one time
	kind  networkEventKind
	piece networkPiece    // left, arrived
	recv  *networkMessage // received
}

type networkEventKind int

const (
	pieceLeft networkEventKind = iota
	pieceArrived
	messageReceived
)

// networkEvents is a heap.
type networkEvents []networkEvent

func (h networkEvents) Len() int { return len(h) }
func (h networkEvents) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].count < h[j].count
}
func (h networkEvents) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *networkEvents) Push(x any)   { *h = append(*h, x.(networkEvent)) }
func (h *networkEvents) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = networkEvent{}
	*h = old[:len(old)-1]
	return last
}

// addEvent adds an event, and wakes the task if it would sleep beyond it.
func (w *network) addEvent(x networkEvent) {
	w.count++
	x.count = w.count
	heap.Push(&w.events, x)
	if x.at < w.wakeAt {
		w.mon.Wake()
	}
}

// runEvents handles events until all endpoints are closed.
func (w *network) runEvents() {
	w.mon.Lock()
	defer w.mon.Unlock()
	for w.open > 0 {
		if len(w.events) == 0 {
			w.wakeAt = farFuture
			w.mon.Wait()
			continue
		}
		if w.wakeAt = w.events[0].at; w.wakeAt > w.env.Now() {
			w.mon.WaitUntil(w.wakeAt)
			continue
		}
		w.wakeAt = 0 // it is awake
		w.handleEvent(heap.Pop(&w.events).(networkEvent))
	}
}

func (w *network) handleEvent(x networkEvent) {
	switch x.kind {
	case pieceLeft:
		from := x.piece.of.stream.from
		from.leaving = false
		w.addEvent(networkEvent{at: x.at + w.link.Latency, kind: pieceArrived, piece: x.piece})
		from.sendNext()
	case pieceArrived:
		if m := x.piece.of; m.stream.over {
			return
		} else if m.peer == nil {
			m.early = append(m.early, x.piece)
		} else {
			m.stream.receivePiece(x.piece, x.at)
		}
	case messageReceived:
		x.recv.done.Set(nil)
	}
}

// sendNext has the next piece leave the port, if that is free.
func (ep *networkEndpoint) sendNext() {
	for len(ep.turns) > 0 && ep.turns[0].over {
		ep.turns = ep.turns[1:]
	}
	if ep.leaving || len(ep.turns) == 0 {
		return
	}
	w, s := ep.net, ep.turns[0]
	ep.turns = ep.turns[1:]
	m := s.sends[0]
	x := networkPiece{m, m.next, min(m.next+w.pieceBytes, len(m.p))}
	if m.next = x.upTo; m.next == len(m.p) {
		s.sends = s.sends[1:]
	}
	s.flight++
	s.inTurn = false
	s.takeTurn()
	ep.outFree = max(ep.outFree, m.posted) + w.link.passTime(x.upTo-x.from)
	ep.leaving = true
	w.addEvent(networkEvent{at: ep.outFree, kind: pieceLeft, piece: x})
}

// takeTurn appends the stream to the turns of its sender, if it has a piece that may leave.
func (s *networkStream) takeTurn() {
	if !s.inTurn && len(s.sends) > 0 && s.flight < maxInFlight {
		s.inTurn = true
		s.from.turns = append(s.from.turns, s)
	}
}

// receivePiece passes a piece through the receiver's port, from the time when it has reached a posted receive.
func (s *networkStream) receivePiece(x networkPiece, ready time.Duration) {
	s.flight--
	s.takeTurn()
	s.from.sendNext()
	m, last := x.of, x.upTo == len(x.of.p)
	if last {
		s.matched = s.matched[1:]
		m.done.Set(nil)
	}
	if m.wrong {
		return
	}
	takes := s.to.net.link.passTime(x.upTo - x.from)
	s.to.inFree = max(s.to.inFree, ready-takes) + takes
	copy(m.peer.p[x.from:x.upTo], m.p[x.from:x.upTo])
	if last {
		s.to.net.addEvent(networkEvent{at: max(ready, s.to.inFree), kind: messageReceived, recv: m.peer})
	}
}
