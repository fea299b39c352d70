package transport

import "hash/crc32"

// frame is a frame to be written: the header, then the payload.
type frame struct {
	head    [headerBytes]byte
	payload []byte
	req     *netRequest // nil for control frames
	last    bool        // req's memory is free once the frame is written
	bulk    bool        // the payload is sent without the frame
}

// nextFrame takes the next frame to be written, if there is one: control frames, then
// short messages and offers, then the pieces of long messages, round-robin; without those
// if short is set. There is one writer at a time, which must call frameWritten for each.
func (l *link) nextFrame(f *frame, short bool) bool {
	l.mon.Lock()
	if l.err != nil {
		l.mon.Unlock()
		return false
	}
	var h header
	f.payload, f.req, f.last, f.bulk = nil, nil, false, false
	switch {
	case l.control.len() > 0:
		c := l.control.pop()
		h, f.payload = c.header, c.payload
	case l.first.len() > 0:
		r := l.first.pop()
		if r.eager {
			h = header{kind: frameEager, from: uint32(r.pair.local), to: uint32(r.pair.remote), tag: r.tag}
			f.payload, f.req, f.last, r.moving = r.p, r, true, true
		} else {
			h, f.payload = l.offerOf(r)
			l.offered[r.id] = r
		}
	case l.bulk.len() > 0 && !short:
		r := l.bulk.pop()
		h = header{kind: frameData, from: uint32(r.pair.local), to: uint32(r.pair.remote), tag: r.tag, id: r.id, arg: uint64(r.off)}
		piece := pieceBytes
		if f.bulk = l.engine != nil; f.bulk {
			piece = bulkBytes
		}
		f.payload = r.p[r.off:min(r.off+piece, len(r.p))]
		if f.bulk {
			h.kind, h.tag = frameBulk, Tag(len(f.payload))
		}
		f.req, f.last, r.moving = r, r.off+len(f.payload) == len(r.p), true
	default:
		l.mon.Unlock()
		return false
	}
	l.queued.Add(-1)
	l.inHand++
	h.generation, h.sequence = l.world.generation, l.outSeq
	if !f.bulk {
		h.length = uint32(len(f.payload))
	}
	l.outSeq++
	l.mon.Unlock()

	if h.length > 0 && l.hasChecksums() {
		h.sum = crc32.Checksum(f.payload, castagnoli)
	}
	h.encodeHeader(&f.head)
	return true
}

// hasChecksums reports whether frames carry the checksum of their payload.
func (l *link) hasChecksums() bool { return l.ring == nil && l.sealedConn() == nil }

// frameWritten ends the use of f's memory. err, if not nil, means that f could not be
// written.
func (l *link) frameWritten(f *frame, err error) {
	l.mon.Lock()
	defer l.mon.Unlock()
	l.inHand--
	r := f.req
	if r == nil {
		return
	}
	r.moving = false
	switch {
	case err == nil && f.last:
		r.pair.sending--
		r.endWith(nil)
	case r.pair.err != nil:
		r.endWith(r.pair.err)
	case err != nil:
		r.endWith(&PeerLost{Rank: r.pair.remote, Generation: l.world.generation, Cause: err})
	default:
		r.off += len(f.payload)
		l.bulk.push(r)
		l.queued.Add(1)
	}
}
