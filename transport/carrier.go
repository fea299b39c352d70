package transport

import (
	"runtime"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/mpi"
)

// Over MPI a link's frames travel in packets, several in a message, which any process
// receives into memory that waits for them. Wanted messages do not travel in frames: a
// frame announces the bytes (frameBulk), which follow in a message of their own, from
// the sender's memory to the receiver's. Bytes of one process to another arrive in the
// order in which they were announced, so they need no names.

const (
	// packetBytes is how many bytes of frames travel together.
	packetBytes = 32 << 10
	// packetsAwaited is how many packets can arrive between looks.
	packetsAwaited = 32
	// packetsUnderWay and bulksUnderWay bound what is sent to a process and not yet
	// taken by MPI.
	packetsUnderWay = 4
	bulksUnderWay   = 8
	// packedBytes is how long a message may be to be sent before it is wanted.
	packedBytes = 8 << 10
	// bulkBytes is how much of a message is announced at once.
	bulkBytes = 64 << 20

	// mpiPollFor is how long the carrier polls after the last bytes came or went. Until
	// mpiNapFor it naps between looks. Then it rests, from which it is woken by what is to be
	// sent: what comes waits for a millisecond, as Go's timers take that long in a process
	// that has nothing else to do.
	mpiPollFor   = 200 * time.Microsecond
	mpiNapFor    = 5 * time.Millisecond
	mpiNap       = 20 * time.Microsecond
	mpiRest      = 200 * time.Microsecond
	mpiHelloPoll = 200 * time.Microsecond
)

// Tags of MPI messages.
const (
	mpiHello = iota + 1
	mpiPacket
	mpiBulk
)

// carrier carries the frames of all links of a process by MPI. One goroutine, serve,
// does that; the others tell it that there is something to send.
type carrier struct {
	env    env.Env
	comm   mpi.Comm
	world  *netWorld
	shared bool // ranks share cores
	over   *env.Event

	mon     env.Monitor // guards what follows
	told    bool        // something is to be sent
	napping bool
	ending  bool

	// What follows is serve's.
	under   []passage // by slot
	free    []int     // slots
	pending int       // slots under way, but for packets awaited
	first   int       // of the packets awaited, by turn: which is next in order
	awaited [packetsAwaited]int
	arrived map[int]mpi.Done // packets that came out of turn
	done    []mpi.Done
	frame   frame
	moved   bool // bytes came or went
	spare   [][]byte
}

type passageKind uint8

const (
	noPassage passageKind = iota
	helloPassage
	packetIn
	packetOut
	bulkIn
	bulkOut
)

// passage is a send or a receive of MPI's.
type passage struct {
	kind  passageKind
	link  *link
	p     []byte
	frame frame       // bulkOut
	req   *netRequest // bulkIn; nil: nobody wants them
	id    uint64      // of req
}

// open takes a slot.
func (c *carrier) open(p passage) int {
	if n := len(c.free); n > 0 {
		slot := c.free[n-1]
		c.free = c.free[:n-1]
		c.under[slot] = p
		return slot
	}
	c.under = append(c.under, p)
	return len(c.under) - 1
}

func (c *carrier) shut(slot int) {
	c.under[slot] = passage{}
	c.free = append(c.free, slot)
}

// await posts the receives of packets.
func (c *carrier) await() error {
	c.arrived = map[int]mpi.Done{}
	for i := range c.awaited {
		slot := c.open(passage{kind: packetIn, p: make([]byte, packetBytes)})
		c.awaited[i] = slot
		if err := c.comm.Recv(slot, c.under[slot].p, mpi.AnyProcess, mpiPacket); err != nil {
			return err
		}
	}
	return nil
}

// tell says that a link has something to send.
func (c *carrier) tell() {
	c.mon.Lock()
	c.told = true
	if c.napping {
		c.mon.Wake()
	}
	c.mon.Unlock()
}

// serve moves bytes until the world is over.
func (c *carrier) serve() {
	defer c.over.Set(nil)
	since := c.env.Now()
	for {
		c.moved = false
		if err := c.poll(); err != nil {
			c.fail(err)
			return
		}
		for _, l := range c.world.links {
			switch {
			case l == nil:
			case l.gone.Load():
				c.mourn(l)
			case l.queued.Load() > 0:
				if err := c.send(l); err != nil {
					l.fail(err)
				}
			}
		}
		now := c.env.Now()
		switch {
		case c.moved:
			since = now
		case c.isEnding():
			c.end()
			return
		case now-since < mpiPollFor:
			if c.shared {
				runtime.Gosched()
			}
		case now-since < mpiNapFor:
			c.env.Sleep(mpiNap)
		default:
			c.rest()
		}
	}
}

func (c *carrier) isEnding() bool {
	c.mon.Lock()
	defer c.mon.Unlock()
	return c.ending
}

// rest sleeps until something is to be sent, but not for long: nobody wakes it for
// what comes.
func (c *carrier) rest() {
	c.mon.Lock()
	if !c.told && !c.ending {
		c.napping = true
		c.mon.WaitUntil(c.env.Now() + mpiRest)
		c.napping = false
	}
	c.told = false
	c.mon.Unlock()
}

// poll takes what has ended.
func (c *carrier) poll() (err error) {
	if c.done, err = c.comm.Poll(c.done[:0]); err != nil {
		return err
	}
	for _, d := range c.done {
		c.moved = true
		if c.under[d.Slot].kind != packetIn {
			c.ended(d)
			continue
		}
		if d.Err != nil {
			return d.Err // whose packet it was nobody knows
		}
		c.arrived[d.Slot] = d
	}
	for { // a process's packets, in the order in which their receives were posted
		slot := c.awaited[c.first]
		d, ok := c.arrived[slot]
		if !ok {
			return nil
		}
		delete(c.arrived, slot)
		c.unpack(d)
		if err := c.comm.Recv(slot, c.under[slot].p, mpi.AnyProcess, mpiPacket); err != nil {
			return err
		}
		c.first = (c.first + 1) % packetsAwaited
	}
}

// ended ends what a slot was for.
func (c *carrier) ended(d mpi.Done) {
	p := c.under[d.Slot]
	c.shut(d.Slot)
	c.pending--
	switch p.kind {
	case packetOut:
		p.link.packets--
		if cap(p.p) == packetBytes {
			c.spare = append(c.spare, p.p)
		}
	case bulkOut:
		p.link.bulks--
		p.link.written(&p.frame, d.Err)
	case bulkIn:
		err := d.Err
		if err == nil && (d.Cancelled || d.Bytes != len(p.p)) {
			err = protocolError("%d bytes where %d were announced", d.Bytes, len(p.p))
		}
		if err != nil {
			p.link.fail(err)
		}
		p.arrived(err)
		return
	}
	if d.Err != nil {
		p.link.fail(d.Err)
	}
}

// unpack takes the frames of a packet.
func (c *carrier) unpack(d mpi.Done) {
	if d.From < 0 || d.From >= len(c.world.links) || c.world.links[d.From] == nil {
		return
	}
	l := c.world.links[d.From]
	l.heard.Store(int64(c.env.Now()))
	for p := c.under[d.Slot].p[:d.Bytes]; len(p) > 0; {
		n := copy(l.in.want(), p)
		p = p[n:]
		if err := l.in.got(n); err != nil {
			l.fail(err)
			l.in.abandon()
			return
		}
	}
}

// send sends what a link has, as far as MPI has room.
func (c *carrier) send(l *link) error {
	for l.packets < packetsUnderWay && l.bulks < bulksUnderWay && l.queued.Load() > 0 {
		packet := c.packet()
		bulks := 0
		var sent [bulksUnderWay]passage
		for len(packet)+headerBytes+packedBytes <= packetBytes && l.bulks+bulks < bulksUnderWay && l.next(&c.frame) {
			f := &c.frame
			packet = append(packet, f.head[:]...)
			if f.bulk {
				sent[bulks] = passage{kind: bulkOut, link: l, p: f.payload, frame: *f}
				bulks++
				continue
			}
			packet = append(packet, f.payload...)
			l.written(f, nil)
		}
		if len(packet) == 0 {
			c.spare = append(c.spare, packet)
			return nil
		}
		c.moved = true
		if err := c.post(passage{kind: packetOut, link: l, p: packet}, mpiPacket); err != nil {
			for _, p := range sent[:bulks] {
				l.written(&p.frame, err)
			}
			return err
		}
		l.packets++
		for i, p := range sent[:bulks] {
			if err := c.post(p, mpiBulk); err != nil {
				for _, p := range sent[i:bulks] {
					l.written(&p.frame, err)
				}
				return err
			}
			l.bulks++
		}
	}
	return nil
}

func (c *carrier) post(p passage, tag int) error {
	slot := c.open(p)
	if err := c.comm.Send(slot, p.p, p.link.peer, tag); err != nil {
		c.shut(slot)
		return err
	}
	c.pending++
	return nil
}

func (c *carrier) packet() []byte {
	if n := len(c.spare); n > 0 {
		p := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return p[:0]
	}
	return make([]byte, 0, packetBytes)
}

// receive has n announced bytes come into req's memory, or nowhere. The caller holds
// the link's monitor.
func (c *carrier) receive(l *link, req *netRequest, id uint64, n int) error {
	p := passage{kind: bulkIn, link: l, req: req, id: id}
	if req != nil {
		p.p = req.p[req.off : req.off+n]
	} else {
		p.p = make([]byte, n)
	}
	slot := c.open(p)
	if err := c.comm.Recv(slot, p.p, l.peer, mpiBulk); err != nil {
		c.shut(slot)
		return err
	}
	if req != nil {
		req.moving = true
	}
	c.pending++
	return nil
}

// arrived ends a bulkIn, or a piece of it.
func (p *passage) arrived(err error) {
	r := p.req
	if r == nil {
		return
	}
	p.link.mon.Lock()
	defer p.link.mon.Unlock()
	r.moving = false
	switch {
	case err == nil:
		r.advance(p.id, len(p.p))
	case r.pair.err != nil:
		r.end(r.pair.err)
	default:
		delete(p.link.receiving, p.id)
		r.end(&PeerLost{Rank: r.pair.remote, Generation: p.link.world.generation, Cause: err})
	}
}
