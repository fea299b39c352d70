package transport

import (
	"fmt"
	"net"
	"sync/atomic"

	"github.com/ecrec/ecrec/internal/env"
)

const (
	// eagerBytes is the length up to which a message is sent before it is asked for.
	eagerBytes = 64 << 10
	// nearEagerBytes is the same for messages that the peer can copy directly from this
	// process.
	nearEagerBytes = 8 << 10
	// pieceBytes is the part of a longer message in one frame, so that short messages
	// need not wait for all of it.
	pieceBytes = 128 << 10
	maxPayload = pieceBytes
	// heldCost is the least that an eager message counts for in MaxHeldBytes. It limits
	// their number to MaxPosted.
	heldCost = MaxHeldBytes / MaxPosted
	// creditBytes is the amount of credit returned in one frame.
	creditBytes = MaxHeldBytes / 8
)

// link connects this process with another one. Frames are sent over the connection or, if
// the two share memory, through a ring beside it. The connection then carries heartbeats
// and shows when the peer is lost.
//
// A short message is sent at once if the receiver has promised to hold it (credit).
// Otherwise it is offered, and the receiver asks for it when it is wanted. Its bytes are
// then transferred directly from the sender's memory to the receiver's.
type link struct {
	world  *netWorld
	peer   int // process
	number int // of an incoming connection, in the order of their arrival
	conn   net.Conn
	ring   *shm        // nil: frames are sent over conn or by the engine
	reader *connReader // of conn; nil with a ring or an engine
	writer *connWriter // to conn; as reader
	engine *mpiEngine  // sends frames by MPI; then there is no conn

	lastReceived atomic.Int64 // env.Now of the last message, or neverReceived
	queued       atomic.Int64 // number of frames not yet taken by nextFrame
	reading      atomic.Int64 // reads.len()
	gone         atomic.Bool  // err is set
	stopped      []*env.Event // the link's goroutines have ended

	mon         env.Monitor // guards the fields below, the pairs and the requests
	err         error       // not nil: the link is over
	free        *netRequest
	pairs       []pair // [local index * remote ranks + remote index]
	nextID      uint64
	outSeq      uint64
	control     queue[controlFrame]    // sent first
	first       queue[*netRequest]     // eager messages and offers, in order
	bulk        queue[*netRequest]     // messages asked for, sent round-robin
	offered     map[uint64]*netRequest // sends by id: offered, not yet asked for
	receiving   map[uint64]*netRequest // receives by id, whose bytes are being sent
	reads       queue[*netRequest]     // receives whose bytes are read from the peer, round-robin
	pool        bufferPool
	inHand      int  // frames returned by nextFrame and not yet written
	closing     bool // no more requests; queued frames are still sent
	sentBye     bool // to the peer, over MPI
	receivedBye bool // from the peer: it sends no more

	packets, bulks int  // MPI messages in progress to the peer; owned by the engine
	cancelled      bool // the engine has cancelled the transfers; owned by the engine

	in inbound
}

// pair is a local and a remote rank.
type pair struct {
	local, remote int
	credit        int // bytes that may be sent eagerly
	posted        []*netRequest
	held          []heldMessage
	heldBytes     int // of held, as credit counts them
	owed          int // credit not yet returned
	sending       int // sends whose end depends on the peer
	err           error
	own           bool // err was caused by the local rank
}

// heldMessage has arrived, or was offered, and no receive has been posted for it.
type heldMessage struct {
	tag   Tag
	p     []byte // of an eager message
	offer bool
	id    uint64 // of an offer
	total int    // length
	from  uint64 // address in the peer; 0: it cannot be read there
}

type controlFrame struct {
	header
	payload []byte
}

func newLink(w *netWorld, peer int, conn net.Conn) *link {
	local, remote := w.processes[w.self].Ranks, w.processes[peer].Ranks
	l := &link{
		world:     w,
		peer:      peer,
		conn:      conn,
		mon:       w.env.Monitor(fmt.Sprintf("link to process %d", peer)),
		pairs:     make([]pair, len(local)*len(remote)),
		offered:   map[uint64]*netRequest{},
		receiving: map[uint64]*netRequest{},
	}
	for i, a := range local {
		for j, b := range remote {
			l.pairs[i*len(remote)+j] = pair{local: a, remote: b, credit: MaxHeldBytes}
		}
	}
	l.in.link = l
	l.lastReceived.Store(neverReceived)
	return l
}

// pairOf returns nil if the ranks are not those of the link.
func (l *link) pairOf(local, remote int) *pair {
	w := l.world
	if local >= len(w.localIndex) || remote >= len(w.localIndex) || w.process[local] != w.self || w.process[remote] != l.peer {
		return nil
	}
	return &l.pairs[w.localIndex[local]*len(w.processes[l.peer].Ranks)+w.localIndex[remote]]
}

func (l *link) postSend(local, remote int, tag Tag, b []byte) Request {
	l.mon.Lock()
	p := l.pairOf(local, remote)
	if err := p.err; err != nil {
		l.mon.Unlock()
		return ended{err}
	}
	if p.sending == MaxPosted {
		l.mon.Unlock()
		panic(fmt.Sprintf("transport: more than %d unmatched sends from rank %d to rank %d", MaxPosted, local, remote))
	}
	r := l.newRequest(p, tag, b)
	if cost := max(len(b), heldCost); len(b) <= l.eagerLimit(b) && p.credit >= cost {
		p.credit -= cost
		r.eager = true
	} else {
		r.id = l.newID()
	}
	p.sending++
	l.first.push(r)
	l.announceFrame()
	l.mon.Unlock()
	l.flushFrames()
	return r
}

func (l *link) newID() uint64 {
	l.nextID++
	return l.nextID
}

// announceFrame records that there is a frame to send. The caller holds the monitor, and
// must call flushFrames when it no longer does.
func (l *link) announceFrame() {
	l.queued.Add(1)
	if l.engine != nil {
		l.engine.notifySend()
	}
}

// flushFrames writes queued frames to the ring as far as there is room, or to the
// connection as far as it takes them without waiting.
func (l *link) flushFrames() {
	switch {
	case l.ring != nil:
		l.ring.moveAll()
	case l.writer != nil:
		l.writer.flushShort()
	}
}

// hasShortFrame reports whether the next frame is not a piece of a long message. The caller
// holds the monitor.
func (l *link) hasShortFrame() bool { return l.control.len()+l.first.len() > 0 }

func (l *link) postRecv(local, remote int, tag Tag, b []byte) Request {
	l.mon.Lock()
	p := l.pairOf(local, remote)
	if p.err != nil && p.own {
		defer l.mon.Unlock()
		return ended{p.err}
	}
	for i := range p.held {
		if p.held[i].tag == tag {
			m := p.held[i]
			p.held = append(p.held[:i], p.held[i+1:]...)
			r := l.newRequest(p, tag, b)
			l.acceptHeld(r, m) // unlocks the monitor
			return r
		}
	}
	if err := p.err; err != nil {
		l.mon.Unlock()
		return ended{err}
	}
	if len(p.posted) == MaxPosted {
		l.mon.Unlock()
		panic(fmt.Sprintf("transport: more than %d unmatched receives at rank %d from rank %d", MaxPosted, local, remote))
	}
	r := l.newRequest(p, tag, b)
	p.posted = append(p.posted, r)
	l.mon.Unlock()
	return r
}

// acceptHeld gives r a held message. The caller holds the monitor, and acceptHeld unlocks
// it.
func (l *link) acceptHeld(r *netRequest, m heldMessage) {
	if m.offer {
		l.answerOffer(r, &m)
		l.mon.Unlock()
		l.flushFrames()
		return
	}
	var err error
	if len(m.p) == len(r.p) {
		r.moving = true
		l.mon.Unlock()
		copy(r.p, m.p)
		l.mon.Lock()
		r.moving = false
	} else {
		err = r.lengthError(len(m.p))
	}
	r.pair.heldBytes -= max(len(m.p), heldCost)
	l.giveBack(r.pair, len(m.p))
	l.pool.put(m.p)
	r.endWith(err)
	l.mon.Unlock()
	l.flushFrames()
}

func (r *netRequest) lengthError(sent int) error {
	return &LengthError{From: r.pair.remote, To: r.pair.local, Tag: r.tag, Sent: sent, Wants: len(r.p)}
}

// answerOffer asks for an offered message, or refuses it. The caller holds the monitor.
func (l *link) answerOffer(r *netRequest, m *heldMessage) {
	done := header{kind: frameDone, from: uint32(r.pair.local), to: uint32(r.pair.remote), id: m.id}
	switch {
	case r.pair.err != nil:
		r.endWith(r.pair.err)
	case m.total != len(r.p):
		l.addControl(done, nil)
		r.endWith(r.lengthError(m.total))
	case m.total == 0:
		l.addControl(done, nil)
		r.endWith(nil)
	case m.from != 0:
		l.readLater(r, m.id, m.from)
	default:
		l.askFor(r, m.id)
	}
}

// askFor asks the peer to send an offered message. The caller holds the monitor.
func (l *link) askFor(r *netRequest, offer uint64) {
	r.id = l.newID()
	l.receiving[r.id] = r
	l.addControl(header{kind: frameWant, from: uint32(r.pair.local), to: uint32(r.pair.remote), id: offer, arg: r.id}, nil)
}

// giveBack returns the credit of a received message of n bytes.
func (l *link) giveBack(p *pair, n int) {
	p.owed += max(n, heldCost)
	if p.owed >= creditBytes && p.err == nil {
		l.addControl(header{kind: frameCredit, from: uint32(p.local), to: uint32(p.remote), arg: uint64(p.owed)}, nil)
		p.owed = 0
	}
}

func (l *link) addControl(h header, payload []byte) {
	if l.err != nil || l.sentBye {
		return
	}
	h.length = uint32(len(payload))
	l.control.push(controlFrame{h, payload})
	l.announceFrame()
}
