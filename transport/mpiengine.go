package transport

import (
	"runtime"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/mpi"
)

// Over MPI a link's frames are sent in packets, several frames in one message. The
// receiver has posted receives for packets from any process. The bytes of messages that
// were asked for are not in frames. A frame announces them (frameBulk), and they follow
// in an MPI message of their own, from the sender's memory to the receiver's. Such bytes
// of one process to another arrive in the order in which they were announced, so that
// they need no identifiers.

const (
	// packetBytes is the maximum length of a packet.
	packetBytes = 32 << 10
	// packetsAwaited is the number of packets that can arrive between polls.
	packetsAwaited = 32
	// packetsUnderWay and bulksUnderWay limit the sends to a process that MPI has not
	// completed.
	packetsUnderWay = 4
	bulksUnderWay   = 8
	// packedBytes is the length up to which a message is sent before it is asked for.
	packedBytes = 8 << 10
	// bulkBytes is the part of a message announced at once.
	bulkBytes = 64 << 20

	// mpiPollFor is how long the engine polls after bytes were last sent or received.
	// Until mpiNapUntil it sleeps for mpiNap between polls. Then it sleeps for mpiRest,
	// but a send wakes it. Received messages may then wait for a millisecond, because
	// Go's timers take that long in an otherwise idle process.
	mpiPollFor   = 200 * time.Microsecond
	mpiNapUntil  = 5 * time.Millisecond
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

// mpiEngine sends and receives the frames of all links of a process by MPI. One
// goroutine, serveLinks, makes all calls to MPI. Other goroutines notify it of frames to
// send.
type mpiEngine struct {
	env     env.Env
	comm    mpi.Comm
	world   *netWorld
	shared  bool // ranks share cores
	stopped *env.Event

	mon         env.Monitor // guards the fields up to ending
	sendPending bool        // frames are to be sent
	napping     bool
	ending      bool

	// The following belong to serveLinks.
	transfers []mpiTransfer // by slot
	free      []int         // slots
	pending   int           // slots in use, without the receives of packets
	first     int           // index in awaited of the next packet in order
	awaited   [packetsAwaited]int
	arrived   map[int]mpi.Done // packets that arrived out of order
	done      []mpi.Done
	frame     frame
	moved     bool // bytes were sent or received
	spare     [][]byte
}

type mpiTransferKind uint8

const (
	noTransfer mpiTransferKind = iota
	helloTransfer
	packetIn
	packetOut
	bulkIn
	bulkOut
)

// mpiTransfer is an MPI send or receive in progress.
type mpiTransfer struct {
	kind  mpiTransferKind
	link  *link
	p     []byte
	frame frame       // of bulkOut
	req   *netRequest // of bulkIn; nil: the bytes are dropped
	id    uint64      // of req
}

// takeSlot assigns a slot to a transfer.
func (e *mpiEngine) takeSlot(p mpiTransfer) int {
	if n := len(e.free); n > 0 {
		slot := e.free[n-1]
		e.free = e.free[:n-1]
		e.transfers[slot] = p
		return slot
	}
	e.transfers = append(e.transfers, p)
	return len(e.transfers) - 1
}

func (e *mpiEngine) freeSlot(slot int) {
	e.transfers[slot] = mpiTransfer{}
	e.free = append(e.free, slot)
}

// postPacketRecvs posts the receives of packets.
func (e *mpiEngine) postPacketRecvs() error {
	e.arrived = map[int]mpi.Done{}
	for i := range e.awaited {
		slot := e.takeSlot(mpiTransfer{kind: packetIn, p: make([]byte, packetBytes)})
		e.awaited[i] = slot
		if err := e.comm.Recv(slot, e.transfers[slot].p, mpi.AnyProcess, mpiPacket); err != nil {
			return err
		}
	}
	return nil
}

// notifySend reports that a link has a frame to send.
func (e *mpiEngine) notifySend() {
	e.mon.Lock()
	e.sendPending = true
	if e.napping {
		e.mon.Wake()
	}
	e.mon.Unlock()
}

// serveLinks sends and receives until the world is over.
func (e *mpiEngine) serveLinks() {
	defer e.stopped.Set(nil)
	since := e.env.Now()
	for {
		e.moved = false
		if err := e.pollMPI(); err != nil {
			e.failAll(err)
			return
		}
		for _, l := range e.world.links {
			switch {
			case l == nil:
			case l.gone.Load():
				e.cancelLink(l)
			case l.queued.Load() > 0:
				if err := e.sendFrames(l); err != nil {
					l.failWith(err)
				}
			}
		}
		now := e.env.Now()
		switch {
		case e.moved:
			since = now
		case e.isEnding():
			e.drainTransfers()
			return
		case now-since < mpiPollFor:
			if e.shared {
				runtime.Gosched()
			}
		case now-since < mpiNapUntil:
			e.env.Sleep(mpiNap)
		default:
			e.sleepIdle()
		}
	}
}

func (e *mpiEngine) isEnding() bool {
	e.mon.Lock()
	defer e.mon.Unlock()
	return e.ending
}

// sleepIdle sleeps until a frame is to be sent, but only briefly: a received message does
// not wake it.
func (e *mpiEngine) sleepIdle() {
	e.mon.Lock()
	if !e.sendPending && !e.ending {
		e.napping = true
		e.mon.WaitUntil(e.env.Now() + mpiRest)
		e.napping = false
	}
	e.sendPending = false
	e.mon.Unlock()
}

// pollMPI handles the transfers that have ended.
func (e *mpiEngine) pollMPI() (err error) {
	if e.done, err = e.comm.Poll(e.done[:0]); err != nil {
		return err
	}
	for _, d := range e.done {
		e.moved = true
		if e.transfers[d.Slot].kind != packetIn {
			e.finishTransfer(d)
			continue
		}
		if d.Err != nil {
			return d.Err // it is unknown which process's packet it was
		}
		e.arrived[d.Slot] = d
	}
	for { // a process's packets, in the order in which their receives were posted
		slot := e.awaited[e.first]
		d, ok := e.arrived[slot]
		if !ok {
			return nil
		}
		delete(e.arrived, slot)
		e.unpackPacket(d)
		if err := e.comm.Recv(slot, e.transfers[slot].p, mpi.AnyProcess, mpiPacket); err != nil {
			return err
		}
		e.first = (e.first + 1) % packetsAwaited
	}
}

// finishTransfer frees the slot of a transfer and handles its result.
func (e *mpiEngine) finishTransfer(d mpi.Done) {
	p := e.transfers[d.Slot]
	e.freeSlot(d.Slot)
	e.pending--
	switch p.kind {
	case packetOut:
		p.link.packets--
		if cap(p.p) == packetBytes && !p.frame.bulk { // else it is a message's memory, of a cancelled transfer
			e.spare = append(e.spare, p.p)
		}
	case bulkOut:
		p.link.bulks--
		p.link.frameWritten(&p.frame, d.Err)
	case bulkIn:
		err := d.Err
		if err == nil && (d.Cancelled || d.Bytes != len(p.p)) {
			err = protocolError("%d bytes, but %d were announced", d.Bytes, len(p.p))
		}
		if err != nil {
			p.link.failWith(err)
		}
		p.bulkArrived(err)
		return
	}
	if d.Err != nil {
		p.link.failWith(d.Err)
	}
}

// unpackPacket parses the frames of a packet.
func (e *mpiEngine) unpackPacket(d mpi.Done) {
	if d.From < 0 || d.From >= len(e.world.links) || e.world.links[d.From] == nil {
		return
	}
	l := e.world.links[d.From]
	l.lastReceived.Store(int64(e.env.Now()))
	for p := e.transfers[d.Slot].p[:d.Bytes]; len(p) > 0; {
		n := copy(l.in.nextBuffer(), p)
		p = p[n:]
		if err := l.in.bytesArrived(n); err != nil {
			l.failWith(err)
			l.in.abandonReceive()
			return
		}
	}
}

// sendFrames sends the queued frames of a link, within the limits of transfers in
// progress.
func (e *mpiEngine) sendFrames(l *link) error {
	for l.packets < packetsUnderWay && l.bulks < bulksUnderWay && l.queued.Load() > 0 {
		packet := e.newPacket()
		bulks := 0
		var sent [bulksUnderWay]mpiTransfer
		for len(packet)+headerBytes+packedBytes <= packetBytes && l.bulks+bulks < bulksUnderWay && l.nextFrame(&e.frame, false) {
			f := &e.frame
			packet = append(packet, f.head[:]...)
			if f.bulk {
				sent[bulks] = mpiTransfer{kind: bulkOut, link: l, p: f.payload, frame: *f}
				bulks++
				continue
			}
			packet = append(packet, f.payload...)
			l.frameWritten(f, nil)
		}
		if len(packet) == 0 {
			e.spare = append(e.spare, packet)
			return nil
		}
		e.moved = true
		if err := e.startSend(mpiTransfer{kind: packetOut, link: l, p: packet}, mpiPacket); err != nil {
			for _, p := range sent[:bulks] {
				l.frameWritten(&p.frame, err)
			}
			return err
		}
		l.packets++
		for i, p := range sent[:bulks] {
			if err := e.startSend(p, mpiBulk); err != nil {
				for _, p := range sent[i:bulks] {
					l.frameWritten(&p.frame, err)
				}
				return err
			}
			l.bulks++
		}
	}
	return nil
}

func (e *mpiEngine) startSend(p mpiTransfer, tag int) error {
	slot := e.takeSlot(p)
	if err := e.comm.Send(slot, p.p, p.link.peer, tag); err != nil {
		e.freeSlot(slot)
		return err
	}
	e.pending++
	return nil
}

func (e *mpiEngine) newPacket() []byte {
	if n := len(e.spare); n > 0 {
		p := e.spare[n-1]
		e.spare = e.spare[:n-1]
		return p[:0]
	}
	return make([]byte, 0, packetBytes)
}

// receiveBulk posts the receive of n announced bytes into req's memory, or drops them if
// req is nil. The caller holds the link's monitor.
func (e *mpiEngine) receiveBulk(l *link, req *netRequest, id uint64, n int) error {
	p := mpiTransfer{kind: bulkIn, link: l, req: req, id: id}
	if req != nil {
		p.p = req.p[req.announced : req.announced+n]
	} else {
		p.p = make([]byte, n)
	}
	slot := e.takeSlot(p)
	if err := e.comm.Recv(slot, p.p, l.peer, mpiBulk); err != nil {
		e.freeSlot(slot)
		return err
	}
	if req != nil {
		req.announced += n
		req.bulks++
		req.moving = true
	}
	e.pending++
	return nil
}

// bulkArrived ends the request of a bulkIn, or one piece of it. The peer may announce a piece
// before the transfer of the one before has ended here.
func (p *mpiTransfer) bulkArrived(err error) {
	r := p.req
	if r == nil {
		return
	}
	p.link.mon.Lock()
	defer p.link.mon.Unlock()
	r.bulks--
	r.moving = r.bulks > 0
	if err == nil {
		r.off += len(p.p)
	} else if r.failed == nil {
		r.failed = err
	}
	switch {
	case r.moving:
	case r.failed == nil:
		r.advanceBytes(p.id, 0)
	case r.pair.err != nil:
		r.endWith(r.pair.err)
	default:
		delete(p.link.receiving, p.id)
		r.endWith(&PeerLost{Rank: r.pair.remote, Generation: p.link.world.generation, Cause: r.failed})
	}
}
