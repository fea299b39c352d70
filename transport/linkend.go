package transport

import (
	"maps"
	"slices"
	"time"
)

// How links and pairs end.

// abortRank ends a local rank's requests on this link with cause, and reports that to the
// peer.
func (l *link) abortRank(rank int, cause, seen error) {
	l.mon.Lock()
	reported := false
	for i := range l.pairs {
		p := &l.pairs[i]
		if p.local != rank {
			continue
		}
		reported = reported || p.own
		l.endPair(p, cause, true)
	}
	if !reported {
		h, payload := encodeLoss(rank, seen)
		l.addControl(h, payload)
	}
	l.mon.Unlock()
	l.flushRing()
}

// endPair ends the requests of a pair. The caller holds the monitor.
func (l *link) endPair(p *pair, err error, own bool) {
	if p.err == nil || own && !p.own {
		p.err, p.own = err, own
	}
	err = p.err
	p.posted = endRequestsOf(p.posted, p, err)
	before := len(l.first) + len(l.bulk)
	l.first = endRequestsOf(l.first, p, err)
	l.bulk = endRequestsOf(l.bulk, p, err)
	l.queued.Add(int64(len(l.first) + len(l.bulk) - before))
	l.reads = endRequestsOf(l.reads, p, err)
	l.reading.Store(int64(len(l.reads)))
	for _, id := range slices.Sorted(maps.Keys(l.offered)) { // in a fixed order, for simulations
		if r := l.offered[id]; r.pair == p {
			l.withdrawOffer(r)
			r.endWith(err)
			delete(l.offered, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.receiving)) {
		if r := l.receiving[id]; r.pair == p {
			if !r.moving {
				r.endWith(err)
			}
			delete(l.receiving, id)
		}
	}
	l.dropHeld(p)
}

// dropHeld drops the messages that can no longer be received. If the local rank is over,
// these are all. Otherwise they are those after an offer whose bytes are missing, because
// the order of messages must have no gaps.
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

// failWith ends the link: all ranks of the peer are lost to all ranks of this process.
func (l *link) failWith(cause error) {
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
	case l.engine != nil:
		l.engine.notifySend()
		return
	case l.ring != nil:
		defer l.ring.wakeSelf()
	}
	_ = l.conn.Close()
}

// failure returns the error that ended the link, nil while it works.
func (l *link) failure() error {
	l.mon.Lock()
	defer l.mon.Unlock()
	return l.err
}

// closeLink sends the queued frames, then ends the link and its goroutines. It takes at
// most limit if the peer does not read.
func (l *link) closeLink(limit time.Duration) {
	until := l.world.env.Now() + limit
	l.mon.Lock()
	for l.err == nil && (l.queued.Load() > 0 || l.inHand > 0) && l.world.env.Now() < until {
		l.mon.WaitUntil(min(until, l.world.env.Now()+closePoll))
	}
	l.closing = true
	l.mon.Wake()
	l.mon.Unlock()
	if l.engine != nil {
		l.exchangeByes(until)
	} else {
		l.hangUp(limit)
	}
	for _, e := range l.stopped {
		_ = e.Wait()
	}
	l.failWith(ErrClosed)
	if l.ring != nil {
		l.ring.releaseOwn()
	}
}

// closePoll is the interval at which closeLink checks whether a ring has taken the queued
// frames.
const closePoll = time.Millisecond

// hasLeft reports whether the peer has announced that it sends no more.
func (l *link) hasLeft() bool {
	l.mon.Lock()
	defer l.mon.Unlock()
	return l.receivedBye
}

// exchangeByes announces to the peer that nothing follows, and waits until the peer has
// announced the same.
func (l *link) exchangeByes(until time.Duration) {
	l.mon.Lock()
	defer l.mon.Unlock()
	l.sendBye()
	for l.err == nil && (!l.receivedBye || l.queued.Load() > 0 || l.inHand > 0) && l.world.env.Now() < until {
		l.mon.WaitUntil(min(until, l.world.env.Now()+closePoll))
	}
}

// sendBye queues the last frame. The caller holds the monitor.
func (l *link) sendBye() {
	l.addControl(header{kind: frameBye}, nil)
	l.sentBye = true
}
