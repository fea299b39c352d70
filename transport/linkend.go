package transport

import (
	"maps"
	"slices"
	"time"
)

// How links and pairs end.

// abort ends what a local rank has on this link with cause, and tells the peer.
func (l *link) abort(rank int, cause, seen error) {
	l.mon.Lock()
	told := false
	for i := range l.pairs {
		p := &l.pairs[i]
		if p.local != rank {
			continue
		}
		told = told || p.own
		l.endPair(p, cause, true)
	}
	if !told {
		h, payload := encodeLoss(rank, seen)
		l.addControl(h, payload)
	}
	l.mon.Unlock()
	l.push()
}

// endPair ends the requests of a pair. The caller holds the monitor.
func (l *link) endPair(p *pair, err error, own bool) {
	if p.err == nil || own && !p.own {
		p.err, p.own = err, own
	}
	err = p.err
	p.posted = stopOf(p.posted, p, err)
	before := len(l.first) + len(l.bulk)
	l.first = stopOf(l.first, p, err)
	l.bulk = stopOf(l.bulk, p, err)
	l.queued.Add(int64(len(l.first) + len(l.bulk) - before))
	l.reads = stopOf(l.reads, p, err)
	l.reading.Store(int64(len(l.reads)))
	for _, id := range slices.Sorted(maps.Keys(l.offered)) { // in one order, for simulations
		if r := l.offered[id]; r.pair == p {
			l.withdraw(r)
			r.end(err)
			delete(l.offered, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.receiving)) {
		if r := l.receiving[id]; r.pair == p {
			if !r.moving {
				r.end(err)
			}
			delete(l.receiving, id)
		}
	}
	l.dropHeld(p)
}

// dropHeld forgets the messages that can no longer be received: all where the
// local rank is over, else those that come after one whose bytes were still to
// come, for the order of messages has no gaps.
func (l *link) dropHeld(p *pair) {
	kept := p.held[:0]
	gap := p.own
	for _, m := range p.held {
		gap = gap || m.offer
		if gap {
			l.pool.put(m.p)
		} else {
			kept = append(kept, m)
		}
	}
	clear(p.held[len(kept):])
	p.held = kept
}

// fail ends the link: all ranks of the peer are lost to all ranks here.
func (l *link) fail(cause error) {
	l.mon.Lock()
	if l.err == nil {
		l.err = cause
		for i := range l.pairs {
			p := &l.pairs[i]
			l.endPair(p, &PeerLost{Rank: p.remote, Generation: l.world.generation, Cause: cause}, false)
		}
		l.control = nil
		l.queued.Store(0)
		l.gone.Store(true)
	}
	l.mon.Wake()
	l.mon.Unlock()
	switch {
	case l.carrier != nil:
		l.carrier.tell()
		return
	case l.ring != nil:
		defer l.ring.wakeSelf()
	}
	_ = l.conn.Close()
}

// failed is what ended the link, nil while it works.
func (l *link) failed() error {
	l.mon.Lock()
	defer l.mon.Unlock()
	return l.err
}

// close lets what is queued go out, then ends the link and its goroutines. It
// takes at most limit where the peer does not read.
func (l *link) close(limit time.Duration) {
	until := l.world.env.Now() + limit
	l.mon.Lock()
	for l.err == nil && (l.queued.Load() > 0 || l.inHand > 0) && l.world.env.Now() < until {
		l.mon.WaitUntil(min(until, l.world.env.Now()+closePoll))
	}
	l.closing = true
	l.mon.Wake()
	l.mon.Unlock()
	if l.carrier != nil {
		l.bye(until)
	} else {
		l.hangUp(limit)
	}
	for _, e := range l.stopped {
		_ = e.Wait()
	}
	l.fail(ErrClosed)
	if l.ring != nil {
		l.ring.release()
	}
}

// closePoll is how often close looks whether a ring has taken what is queued.
const closePoll = time.Millisecond

// parted reports whether the peer has said that it sends no more.
func (l *link) parted() bool {
	l.mon.Lock()
	defer l.mon.Unlock()
	return l.heardBye
}

// bye tells the peer that nothing follows, and waits until it has said so too.
func (l *link) bye(until time.Duration) {
	l.mon.Lock()
	defer l.mon.Unlock()
	l.sayBye()
	for l.err == nil && (!l.heardBye || l.queued.Load() > 0 || l.inHand > 0) && l.world.env.Now() < until {
		l.mon.WaitUntil(min(until, l.world.env.Now()+closePoll))
	}
}

// sayBye is the last that goes out; the caller holds the monitor.
func (l *link) sayBye() {
	l.addControl(header{kind: frameBye}, nil)
	l.saidBye = true
}
