package transport

import "hash/crc32"

// frame is one to be written: the header, then the payload.
type frame struct {
	head    [headerBytes]byte
	payload []byte
	req     *netRequest // nil for control frames
	last    bool        // req's memory is free once it is written
	bulk    bool        // the payload travels by itself
}

// next takes the frame to be written next, if there is one: control frames, then
// short messages and offers, then the pieces of long messages in turns. There is
// one writer at a time, which calls written for each.
func (l *link) next(f *frame) bool {
	l.mon.Lock()
	if l.err != nil {
		l.mon.Unlock()
		return false
	}
	var h header
	f.payload, f.req, f.last, f.bulk = nil, nil, false, false
	switch {
	case len(l.control) > 0:
		c := l.control[0]
		l.control = append(l.control[:0], l.control[1:]...)
		h, f.payload = c.header, c.payload
	case len(l.first) > 0:
		r := l.first[0]
		l.first = append(l.first[:0], l.first[1:]...)
		if r.eager {
			h = header{kind: frameEager, from: uint32(r.pair.local), to: uint32(r.pair.remote), tag: r.tag}
			f.payload, f.req, f.last, r.moving = r.p, r, true, true
		} else {
			h, f.payload = l.offerOf(r)
			l.offered[r.id] = r
		}
	case len(l.bulk) > 0:
		r := l.bulk[0]
		l.bulk = append(l.bulk[:0], l.bulk[1:]...)
		h = header{kind: frameData, from: uint32(r.pair.local), to: uint32(r.pair.remote), tag: r.tag, id: r.id, arg: uint64(r.off)}
		piece := pieceBytes
		if f.bulk = l.carrier != nil; f.bulk {
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

	if l.ring == nil && h.length > 0 {
		h.sum = crc32.Checksum(f.payload, castagnoli)
	}
	h.encode(&f.head)
	return true
}

// written ends what f was for; err says that it could not be written.
func (l *link) written(f *frame, err error) {
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
		r.end(nil)
	case r.pair.err != nil:
		r.end(r.pair.err)
	case err != nil:
		r.end(&PeerLost{Rank: r.pair.remote, Generation: l.world.generation, Cause: err})
	default:
		r.off += len(f.payload)
		l.bulk = append(l.bulk, r)
		l.queued.Add(1)
	}
}
