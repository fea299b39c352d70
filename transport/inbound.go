package transport

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// inbound takes the bytes of a link's frames as they come. One goroutine at a
// time feeds it: it asks want for the memory that the next bytes belong in, puts
// some there, and calls got. So bytes go straight into the memory of a receive
// that was posted.
type inbound struct {
	link     *link
	sequence uint64
	started  bool // the header is complete, and its payload is on the way
	filled   int  // bytes of the header, or of the payload
	head     [headerBytes]byte
	h        header
	dest     []byte // of the payload; nil: it is dropped
	req      *netRequest
	pair     *pair              // of an eager message that is to be held
	scratch  []byte             // for what is dropped
	address  [addressBytes]byte // of an offer
	broken   bool
}

// dropBytes is how much of a dropped payload is read at once.
const dropBytes = 4096

func (in *inbound) want() []byte {
	switch {
	case in.broken:
		return in.drop(dropBytes)
	case !in.started:
		return in.head[in.filled:]
	case in.dest != nil:
		return in.dest[in.filled:]
	default:
		return in.drop(int(in.h.length) - in.filled)
	}
}

func (in *inbound) drop(n int) []byte {
	if in.scratch == nil {
		in.scratch = make([]byte, dropBytes)
	}
	return in.scratch[:min(dropBytes, n)]
}

// got says that the next n bytes of want are there. After an error all bytes are
// dropped.
func (in *inbound) got(n int) error {
	if in.broken {
		return nil
	}
	err := in.advance(n)
	in.broken = err != nil
	return err
}

func (in *inbound) advance(n int) error {
	in.filled += n
	if !in.started {
		if in.filled < headerBytes {
			return nil
		}
		if err := in.header(); err != nil {
			return err
		}
		in.started, in.filled = true, 0
	}
	if in.filled < int(in.h.length) {
		return nil
	}
	if err := in.payload(); err != nil {
		return err // abandon ends what was begun
	}
	in.started, in.filled = false, 0
	in.dest, in.req, in.pair = nil, nil, nil
	return nil
}

// header looks at a header and decides where its payload goes.
func (in *inbound) header() error {
	h, l := &in.h, in.link
	if err := h.decode(&in.head); err != nil {
		return err
	}
	if h.generation < l.world.generation {
		l.world.stats.StaleFrames.Add(1)
		h.kind = frameHeartbeat // its payload is dropped
		return nil
	}
	if h.generation > l.world.generation || h.sequence != in.sequence {
		return protocolError("frame %d of generation %d where frame %d of generation %d is due",
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
		return in.bye()
	}
	p := l.pair(int(h.to), int(h.from))
	if p == nil || !h.kind.mayHave(h.length) {
		return protocolError("kind %d from rank %d to rank %d with %d bytes", h.kind, h.from, h.to, h.length)
	}
	l.mon.Lock()
	defer l.mon.Unlock()
	switch h.kind {
	case frameEager:
		return in.eager(p)
	case frameOffer:
		in.pair, in.dest = p, in.address[:h.length]
		return nil
	case frameWant, frameDone:
		return in.answered(p)
	case frameData:
		return in.data(p)
	case frameBulk:
		return in.bulk(p)
	default: // frameCredit
		if p.credit += int(h.arg); h.arg > MaxHeldBytes || p.credit > MaxHeldBytes {
			return protocolError("credit for %d bytes that were not sent", h.arg)
		}
		return nil
	}
}

func (in *inbound) eager(p *pair) error {
	n := int(in.h.length)
	if n > eagerBytes {
		return protocolError("%d bytes that nobody asked for", n)
	}
	if p.err != nil {
		return nil
	}
	if r := take(&p.posted, in.h.tag); r != nil {
		if len(r.p) != n {
			r.end(r.lengthError(n))
			in.link.giveBack(p, n)
			return nil
		}
		in.req, in.dest, r.moving = r, r.p, true
		return nil
	}
	p.heldBytes += max(n, heldCost)
	if p.heldBytes > MaxHeldBytes {
		return protocolError("more than %d bytes that nobody has received", MaxHeldBytes)
	}
	in.pair, in.dest = p, in.link.pool.get(n)
	return nil
}

func (in *inbound) offer(p *pair) error {
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
	if r := take(&p.posted, h.tag); r != nil {
		l.answer(r, &m)
		return nil
	}
	p.held = append(p.held, m)
	if len(p.held) > 2*MaxPosted {
		return protocolError("more than %d messages that nobody has received", 2*MaxPosted)
	}
	return nil
}

// answered is what became of an offer. One that is not known was given up here.
func (in *inbound) answered(p *pair) error {
	l := in.link
	r := l.offered[in.h.id]
	if r == nil || r.pair != p {
		return nil
	}
	delete(l.offered, in.h.id)
	if in.h.kind == frameDone {
		p.sending--
		r.end(nil)
		return nil
	}
	r.id = in.h.arg
	l.bulk = append(l.bulk, r)
	l.announce()
	return nil
}

func (in *inbound) data(p *pair) error {
	r := in.link.receiving[in.h.id]
	if r == nil {
		return nil // given up
	}
	end := in.h.arg + uint64(in.h.length)
	if r.pair != p || in.h.arg != uint64(r.off) || end > uint64(len(r.p)) {
		return protocolError("bytes %d to %d of a message of %d, of which %d are there", in.h.arg, end, len(r.p), r.off)
	}
	in.req, in.dest, r.moving = r, r.p[r.off:end], true
	return nil
}

// bulk has the bytes that a frame announces received.
func (in *inbound) bulk(p *pair) error {
	l, n := in.link, uint64(in.h.tag)
	if l.carrier == nil || n == 0 || n > bulkBytes {
		return protocolError("%d bytes by themselves", n)
	}
	r := l.receiving[in.h.id] // nil: given up; the bytes come all the same
	if r != nil && (r.pair != p || in.h.arg != uint64(r.off) || in.h.arg+n > uint64(len(r.p))) {
		return protocolError("bytes %d to %d of a message of %d, of which %d are there", in.h.arg, in.h.arg+n, len(r.p), r.off)
	}
	return l.carrier.receive(l, r, in.h.id, int(n))
}

// bye: the peer sends no more, and is answered likewise.
func (in *inbound) bye() error {
	l := in.link
	if l.carrier == nil {
		return protocolError("a good-bye over a connection")
	}
	l.mon.Lock()
	defer l.mon.Unlock()
	l.heardBye = true
	for i := range l.pairs {
		p := &l.pairs[i]
		l.endPair(p, &PeerLost{Rank: p.remote, Generation: l.world.generation, Cause: errHungUp}, false)
	}
	l.sayBye()
	l.mon.Wake()
	return nil
}

// payload ends a frame that is there as a whole.
func (in *inbound) payload() error {
	l, n := in.link, int(in.h.length)
	if l.ring == nil && in.dest != nil {
		if got := crc32.Checksum(in.dest, castagnoli); got != in.h.sum {
			return protocolError("%d bytes from rank %d have checksum %#x, not %#x", n, in.h.from, got, in.h.sum)
		}
	}
	switch {
	case in.req != nil:
		l.mon.Lock()
		in.received(n)
		l.mon.Unlock()
	case in.h.kind == frameOffer && in.pair != nil:
		l.mon.Lock()
		defer l.mon.Unlock()
		return in.offer(in.pair)
	case in.pair != nil:
		in.hold()
	case in.h.kind == frameAbort && in.dest != nil:
		return in.abort()
	}
	return nil
}

// received ends in.req, or one piece of it. The caller holds the monitor.
func (in *inbound) received(n int) {
	l, r := in.link, in.req
	r.moving = false
	if in.h.kind == frameEager {
		l.giveBack(r.pair, n)
		r.end(nil)
		return
	}
	r.advance(in.h.id, n)
}

// advance says that n more bytes of r are there, which the peer sends as id. The caller
// holds the link's monitor.
func (r *netRequest) advance(id uint64, n int) {
	r.off += n
	switch {
	case r.off == len(r.p):
		delete(r.link.receiving, id)
		r.end(nil)
	case r.pair.err != nil:
		r.end(r.pair.err)
	}
}

// hold keeps an eager message until it is wanted; it may be by now.
func (in *inbound) hold() {
	l, p := in.link, in.pair
	l.mon.Lock()
	m := heldMessage{tag: in.h.tag, p: in.dest}
	if p.err != nil {
		l.pool.put(m.p)
		l.mon.Unlock()
		return
	}
	if r := take(&p.posted, m.tag); r != nil {
		l.accept(r, m) // releases the monitor
		return
	}
	p.held = append(p.held, m)
	l.mon.Unlock()
}

func (in *inbound) abort() error {
	l, rank := in.link, int(in.h.from)
	if !slices.Contains(l.world.processes[l.peer].Ranks, rank) {
		return protocolError("rank %d of another process gives up", rank)
	}
	err := decodeLoss(&in.h, in.dest)
	l.mon.Lock()
	defer l.mon.Unlock()
	for i := range l.pairs {
		if p := &l.pairs[i]; p.remote == rank {
			l.endPair(p, err, false)
		}
	}
	return nil
}

// abandon ends the receive whose bytes no longer come. The link has failed.
func (in *inbound) abandon() {
	l := in.link
	l.mon.Lock()
	defer l.mon.Unlock()
	if r := in.req; r != nil {
		r.moving = false
		r.end(r.pair.err)
	}
	in.req = nil
}

// bufferPool keeps the memory of held messages. It is bounded: the rest goes back
// to the collector.
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

// get is memory for n bytes, never nil.
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
