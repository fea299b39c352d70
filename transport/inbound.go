package transport

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// inbound parses the bytes of a link's frames. One goroutine at a time feeds it. It asks
// nextBuffer for the memory in which the next bytes belong, stores some there, and calls
// bytesArrived. Bytes are therefore stored directly in the memory of a posted receive.
type inbound struct {
	link     *link
	sequence uint64
	started  bool // the header is complete, and the payload is being received
	filled   int  // bytes of the header, or of the payload
	head     [headerBytes]byte
	h        header
	dest     []byte // of the payload; nil: it is dropped
	req      *netRequest
	pair     *pair              // of an eager message that is to be held
	scratch  []byte             // for dropped bytes
	address  [addressBytes]byte // of an offer
	broken   bool
}

// dropBytes is the length of one read of a dropped payload.
const dropBytes = 4096

func (in *inbound) nextBuffer() []byte {
	switch {
	case in.broken:
		return in.discardBuffer(dropBytes)
	case !in.started:
		return in.head[in.filled:]
	case in.dest != nil:
		return in.dest[in.filled:]
	default:
		return in.discardBuffer(int(in.h.length) - in.filled)
	}
}

func (in *inbound) discardBuffer(n int) []byte {
	if in.scratch == nil {
		in.scratch = make([]byte, dropBytes)
	}
	return in.scratch[:min(dropBytes, n)]
}

// bytesArrived reports that the next n bytes of nextBuffer are there. After an error all
// bytes are dropped.
func (in *inbound) bytesArrived(n int) error {
	if in.broken {
		return nil
	}
	err := in.advanceFrame(n)
	in.broken = err != nil
	return err
}

func (in *inbound) advanceFrame(n int) error {
	in.filled += n
	if !in.started {
		if in.filled < headerBytes {
			return nil
		}
		if err := in.handleHeader(); err != nil {
			return err
		}
		in.started, in.filled = true, 0
	}
	if in.filled < int(in.h.length) {
		return nil
	}
	if err := in.finishPayload(); err != nil {
		return err // abandonReceive ends the receive
	}
	in.started, in.filled = false, 0
	in.dest, in.req, in.pair = nil, nil, nil
	return nil
}

// handleHeader checks a header and decides where its payload is stored.
func (in *inbound) handleHeader() error {
	h, l := &in.h, in.link
	if err := h.decodeHeader(&in.head); err != nil {
		return err
	}
	if h.generation < l.world.generation {
		l.world.stats.StaleFrames.Add(1)
		h.kind = frameHeartbeat // its payload is dropped
		return nil
	}
	if h.generation > l.world.generation || h.sequence != in.sequence {
		return protocolError("frame %d of generation %d, want frame %d of generation %d",
			h.sequence, h.generation, in.sequence, l.world.generation)
	}
	in.sequence++
	if h.kind == frameHeartbeat {
		return nil
	}
	if h.kind == frameAbort {
		if h.length > dropBytes {
			return protocolError("an abort of %d bytes", h.length)
		}
		in.dest = make([]byte, h.length)
		return nil
	}
	if h.kind == frameBye {
		return in.handleBye()
	}
	p := l.pairOf(int(h.to), int(h.from))
	if p == nil || !h.kind.mayHave(h.length) {
		return protocolError("kind %d from rank %d to rank %d with %d bytes", h.kind, h.from, h.to, h.length)
	}
	l.mon.Lock()
	defer l.mon.Unlock()
	switch h.kind {
	case frameEager:
		return in.beginEager(p)
	case frameOffer:
		in.pair, in.dest = p, in.address[:h.length]
		return nil
	case frameWant, frameDone:
		return in.handleAnswer(p)
	case frameData:
		return in.beginData(p)
	case frameBulk:
		return in.beginBulk(p)
	default: // frameCredit
		if p.credit += int(h.arg); h.arg > MaxHeldBytes || p.credit > MaxHeldBytes {
			return protocolError("credit for %d bytes that were not sent", h.arg)
		}
		return nil
	}
}

func (in *inbound) beginEager(p *pair) error {
	n := int(in.h.length)
	if n > eagerBytes {
		return protocolError("unrequested message of %d bytes", n)
	}
	if p.err != nil {
		return nil
	}
	if r := removeByTag(&p.posted, in.h.tag); r != nil {
		if len(r.p) != n {
			r.endWith(r.lengthError(n))
			in.link.giveBack(p, n)
			return nil
		}
		in.req, in.dest, r.moving = r, r.p, true
		return nil
	}
	p.heldBytes += max(n, heldCost)
	if p.heldBytes > MaxHeldBytes {
		return protocolError("more than %d bytes without a receive", MaxHeldBytes)
	}
	in.pair, in.dest = p, in.link.pool.get(n)
	return nil
}

func (in *inbound) handleOffer(p *pair) error {
	h, l := &in.h, in.link
	const longest = 1 << 48
	if h.arg > longest {
		return protocolError("an offer of %d bytes", h.arg)
	}
	if p.err != nil {
		return nil
	}
	m := heldMessage{tag: h.tag, offer: true, id: h.id, total: int(h.arg)}
	if h.length == addressBytes && l.ring != nil && (l.ring.self.reads.Load() != 0 || l.ring.view != nil) {
		m.from = binary.LittleEndian.Uint64(in.address[:])
	}
	if r := removeByTag(&p.posted, h.tag); r != nil {
		l.answerOffer(r, &m)
		return nil
	}
	p.held = append(p.held, m)
	if len(p.held) > 2*MaxPosted {
		return protocolError("more than %d messages without a receive", 2*MaxPosted)
	}
	return nil
}

// handleAnswer handles the answer to an offer. An unknown offer was given up by this
// side.
func (in *inbound) handleAnswer(p *pair) error {
	l := in.link
	r := l.offered[in.h.id]
	if r == nil || r.pair != p {
		return nil
	}
	delete(l.offered, in.h.id)
	if in.h.kind == frameDone {
		p.sending--
		r.endWith(nil)
		return nil
	}
	r.id = in.h.arg
	l.bulk.push(r)
	l.announceFrame()
	return nil
}

func (in *inbound) beginData(p *pair) error {
	r := in.link.receiving[in.h.id]
	if r == nil {
		return nil // given up
	}
	end := in.h.arg + uint64(in.h.length)
	if r.pair != p || in.h.arg != uint64(r.off) || end > uint64(len(r.p)) {
		return protocolError("bytes %d to %d of a message of %d bytes, of which %d have arrived", in.h.arg, end, len(r.p), r.off)
	}
	in.req, in.dest, r.moving = r, r.p[r.off:end], true
	return nil
}

// beginBulk posts the MPI receive of the bytes that a frame announces.
func (in *inbound) beginBulk(p *pair) error {
	l, n := in.link, uint64(in.h.tag)
	if l.engine == nil || n == 0 || n > bulkBytes {
		return protocolError("%d bytes without a frame", n)
	}
	r := l.receiving[in.h.id] // nil: given up; the bytes are still sent
	if r != nil && (r.pair != p || in.h.arg != uint64(r.announced) || in.h.arg+n > uint64(len(r.p))) {
		return protocolError("bytes %d to %d of a message of %d bytes, of which %d were announced", in.h.arg, in.h.arg+n, len(r.p), r.announced)
	}
	return l.engine.receiveBulk(l, r, in.h.id, int(n))
}

// handleBye handles the end of the peer's frames, and answers with its own.
func (in *inbound) handleBye() error {
	l := in.link
	if l.engine == nil {
		return protocolError("a bye over a connection")
	}
	l.mon.Lock()
	defer l.mon.Unlock()
	l.receivedBye = true
	l.endPairs(false, func(p *pair) error {
		return &PeerLost{Rank: p.remote, Generation: l.world.generation, Cause: errHungUp}
	})
	l.sendBye()
	l.mon.Wake()
	return nil
}

// finishPayload handles a complete frame.
func (in *inbound) finishPayload() error {
	l, n := in.link, int(in.h.length)
	if in.dest != nil && l.hasChecksums() {
		if got := crc32.Checksum(in.dest, castagnoli); got != in.h.sum {
			return protocolError("%d bytes from rank %d have checksum %#x, want %#x", n, in.h.from, got, in.h.sum)
		}
	}
	switch {
	case in.req != nil:
		l.mon.Lock()
		in.finishReceive(n)
		l.mon.Unlock()
	case in.h.kind == frameOffer && in.pair != nil:
		l.mon.Lock()
		defer l.mon.Unlock()
		return in.handleOffer(in.pair)
	case in.pair != nil:
		in.holdMessage()
	case in.h.kind == frameAbort && in.dest != nil:
		return in.handleAbort()
	}
	return nil
}

// finishReceive ends in.req, or one piece of it. The caller holds the monitor.
func (in *inbound) finishReceive(n int) {
	l, r := in.link, in.req
	r.moving = false
	if in.h.kind == frameEager {
		l.giveBack(r.pair, n)
		r.endWith(nil)
		return
	}
	r.advanceBytes(in.h.id, n)
}

// advanceBytes records that n more bytes of r have arrived, which the peer sends under
// id. The caller holds the link's monitor.
func (r *netRequest) advanceBytes(id uint64, n int) {
	r.off += n
	switch {
	case r.off == len(r.p):
		delete(r.link.receiving, id)
		r.endWith(nil)
	case r.pair.err != nil:
		r.endWith(r.pair.err)
	}
}

// holdMessage holds an eager message until a receive is posted, which may have happened
// by now.
func (in *inbound) holdMessage() {
	l, p := in.link, in.pair
	l.mon.Lock()
	m := heldMessage{tag: in.h.tag, p: in.dest}
	if p.err != nil {
		l.pool.put(m.p)
		l.mon.Unlock()
		return
	}
	if r := removeByTag(&p.posted, m.tag); r != nil {
		l.acceptHeld(r, m) // unlocks the monitor
		return
	}
	p.held = append(p.held, m)
	l.mon.Unlock()
}

func (in *inbound) handleAbort() error {
	l, rank := in.link, int(in.h.from)
	if !slices.Contains(l.world.processes[l.peer].Ranks, rank) {
		return protocolError("an abort of rank %d, which another process hosts", rank)
	}
	err := decodeLoss(&in.h, in.dest)
	l.mon.Lock()
	defer l.mon.Unlock()
	l.endPairs(false, func(p *pair) error {
		if p.remote != rank {
			return nil
		}
		return err
	})
	return nil
}

// abandonReceive ends the receive whose bytes will not arrive. The link has failed.
func (in *inbound) abandonReceive() {
	l := in.link
	l.mon.Lock()
	defer l.mon.Unlock()
	if r := in.req; r != nil {
		r.moving = false
		r.endWith(r.pair.err)
	}
	in.req = nil
}

// bufferPool keeps the memory of held messages for reuse. Its size is limited: the
// garbage collector frees the rest.
type bufferPool struct {
	classes [poolClasses][][]byte // of poolSmallest << class bytes
	bytes   int
}

const (
	poolSmallest = 1 << 10
	poolClasses  = 7 // up to eagerBytes
	poolBytes    = 4 << 20
)

func poolClass(n int) int {
	class := 0
	for poolSmallest<<class < n {
		class++
	}
	return class
}

// get returns memory for n bytes, never nil.
func (b *bufferPool) get(n int) []byte {
	class := poolClass(n)
	list := b.classes[class]
	if len(list) == 0 {
		return make([]byte, n, poolSmallest<<class)
	}
	p := list[len(list)-1]
	b.classes[class] = list[:len(list)-1]
	b.bytes -= cap(p)
	return p[:n]
}

func (b *bufferPool) put(p []byte) {
	if p == nil || b.bytes+cap(p) > poolBytes {
		return
	}
	class := poolClass(cap(p))
	b.classes[class] = append(b.classes[class], p)
	b.bytes += cap(p)
}
