package transport

import (
	"fmt"
	"net"
	"sync/atomic"

	"github.com/ecrec/ecrec/internal/env"
)

const (
	// eagerBytes is how long a message may be to be sent before it is wanted.
	eagerBytes = 64 << 10
	// nearEagerBytes is the same for what the peer can copy from where it lies.
	nearEagerBytes = 8 << 10
	// pieceBytes is how much of a longer message travels in one frame, so that
	// small messages need not wait for all of it.
	pieceBytes = 128 << 10
	maxPayload = pieceBytes
	// heldCost is the least that an eager message counts for in MaxHeldBytes, so
	// that their number is bounded too, by MaxPosted.
	heldCost = MaxHeldBytes / MaxPosted
	// creditBytes is how much credit is given back at once.
	creditBytes = MaxHeldBytes / 8
)

// link joins this process with another one. Frames travel on the connection or,
// where the two share memory, through a ring beside it; the connection then
// carries heartbeats and shows when the peer is gone.
//
// A short message is sent at once if the receiver has promised to hold it
// (credit), else it is offered: the receiver asks for it when it is wanted, so
// that its bytes go from the sender's memory to the receiver's.
type link struct {
	world   *netWorld
	peer    int // process
	conn    net.Conn
	ring    *shm     // nil: frames travel on conn, or by the carrier
	carrier *carrier // of frames by MPI; then there is no conn

	heard   atomic.Int64 // env.Now when the peer was last heard
	queued  atomic.Int64 // frames not yet taken by next
	reading atomic.Int64 // len(reads)
	gone    atomic.Bool  // err is set
	stopped []*env.Event // the link's goroutines have ended

	mon       env.Monitor // guards what follows, the pairs and the requests
	err       error       // the link is over
	free      *netRequest
	pairs     []pair // [local place * remote ranks + remote place]
	nextID    uint64
	outSeq    uint64
	control   []controlFrame         // go out first
	first     []*netRequest          // eager messages and offers, in order
	bulk      []*netRequest          // wanted messages, in turns
	offered   map[uint64]*netRequest // sends by id: offered, not yet wanted
	receiving map[uint64]*netRequest // receives by id, whose bytes are on the way
	reads     []*netRequest          // receives whose bytes are read from the peer, in turns
	pool      bufferPool
	inHand    int  // frames that next has given out and are not yet written
	closing   bool // no requests any more; what is queued goes out
	saidBye   bool // to the peer, over MPI
	heardBye  bool // from it: it sends no more

	packets, bulks int  // messages of MPI under way to the peer; the carrier's
	mourned        bool // the carrier has ended what it had under way; the carrier's

	in inbound
}

// pair is a local and a remote rank.
type pair struct {
	local, remote int
	credit        int // bytes that may be sent eagerly
	posted        []*netRequest
	held          []heldMessage
	heldBytes     int // of held, as credit counts them
	owed          int // credit not yet given back
	sending       int // sends whose end depends on the peer
	err           error
	own           bool // err is the local rank's own doing
}

// heldMessage has arrived, or was offered, and is not yet wanted.
type heldMessage struct {
	tag   Tag
	p     []byte // of an eager message
	offer bool
	id    uint64 // of an offer
	total int    // length
	from  uint64 // where the peer has it; 0: it cannot be read there
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
	l.heard.Store(int64(w.env.Now()))
	return l
}

// pair is nil where the ranks are not the link's.
func (l *link) pair(local, remote int) *pair {
	w := l.world
	if local >= len(w.place) || remote >= len(w.place) || w.process[local] != w.self || w.process[remote] != l.peer {
		return nil
	}
	return &l.pairs[w.place[local]*len(w.processes[l.peer].Ranks)+w.place[remote]]
}

func (l *link) send(local, remote int, tag Tag, b []byte) Request {
	l.mon.Lock()
	p := l.pair(local, remote)
	if err := p.err; err != nil {
		l.mon.Unlock()
		return ended{err}
	}
	if p.sending == MaxPosted {
		l.mon.Unlock()
		panic(fmt.Sprintf("transport: more than %d unmatched sends from rank %d to rank %d", MaxPosted, local, remote))
	}
	r := l.request(p, tag, b)
	if cost := max(len(b), heldCost); len(b) <= l.eagerLimit(b) && p.credit >= cost {
		p.credit -= cost
		r.eager = true
	} else {
		r.id = l.newID()
	}
	p.sending++
	l.first = append(l.first, r)
	l.announce()
	l.mon.Unlock()
	l.push()
	return r
}

func (l *link) newID() uint64 {
	l.nextID++
	return l.nextID
}

// announce says that there is a frame to write; the caller holds the monitor and
// calls push when it no longer does.
func (l *link) announce() {
	l.queued.Add(1)
	switch {
	case l.carrier != nil:
		l.carrier.tell()
	case l.ring == nil:
		l.mon.Wake()
	}
}

// push writes what fits into the ring; a connection has a goroutine for that.
func (l *link) push() {
	if l.ring != nil {
		l.ring.pump()
	}
}

func (l *link) recv(local, remote int, tag Tag, b []byte) Request {
	l.mon.Lock()
	p := l.pair(local, remote)
	if p.err != nil && p.own {
		defer l.mon.Unlock()
		return ended{p.err}
	}
	for i := range p.held {
		if p.held[i].tag == tag {
			m := p.held[i]
			p.held = append(p.held[:i], p.held[i+1:]...)
			r := l.request(p, tag, b)
			l.accept(r, m) // releases the monitor
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
	r := l.request(p, tag, b)
	p.posted = append(p.posted, r)
	l.mon.Unlock()
	return r
}

// accept gives r a message that was held for it. It is called with the monitor
// held, and releases it.
func (l *link) accept(r *netRequest, m heldMessage) {
	if m.offer {
		l.answer(r, &m)
		l.mon.Unlock()
		l.push()
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
	r.end(err)
	l.mon.Unlock()
	l.push()
}

func (r *netRequest) lengthError(sent int) error {
	return &LengthError{From: r.pair.remote, To: r.pair.local, Tag: r.tag, Sent: sent, Wants: len(r.p)}
}

// answer asks for an offered message, or refuses it. The caller holds the monitor.
func (l *link) answer(r *netRequest, m *heldMessage) {
	done := header{kind: frameDone, from: uint32(r.pair.local), to: uint32(r.pair.remote), id: m.id}
	switch {
	case r.pair.err != nil:
		r.end(r.pair.err)
	case m.total != len(r.p):
		l.addControl(done, nil)
		r.end(r.lengthError(m.total))
	case m.total == 0:
		l.addControl(done, nil)
		r.end(nil)
	case m.from != 0:
		l.readLater(r, m.id, m.from)
	default:
		l.askFor(r, m.id)
	}
}

// askFor has the peer send what it offered. The caller holds the monitor.
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
	if l.err != nil || l.saidBye {
		return
	}
	h.length = uint32(len(payload))
	l.control = append(l.control, controlFrame{h, payload})
	l.announce()
}
