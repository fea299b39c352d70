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
		reported = reported || l.pairs[i].local == rank && l.pairs[i].own
	}
	l.endPairs(true, func(p *pair) error {
		if p.local != rank {
			return nil
		}
		return cause
	})
	if !reported {
		h, payload := encodeLoss(rank, seen)
		l.addControl(h, payload)
	}
	l.mon.Unlock()
	l.flushFrames()
}

// pairRequests are the requests of a pair that the link has, by list.
type pairRequests struct{ first, bulk, reads, offered, receiving []*netRequest }

// endPairs ends the requests of the pairs for which cause returns an error, pair by pair. The
// caller holds the monitor. A process may have many ranks, so each request is looked at once
// and not once for each pair.
func (l *link) endPairs(own bool, cause func(*pair) error) {
	ending := make(map[*pair]*pairRequests)
	for i := range l.pairs {
		p := &l.pairs[i]
		err := cause(p)
		if err == nil {
			continue
		}
		if p.err == nil || own && !p.own {
			p.err, p.own = err, own
		}
		ending[p] = &pairRequests{}
	}
	l.takeRequests(ending)
	for i := range l.pairs {
		p := &l.pairs[i]
		if of := ending[p]; of != nil {
			l.endRequests(p, of)
			l.dropHeld(p)
		}
	}
}

// takeRequests takes the requests of pairs from the link's lists.
func (l *link) takeRequests(of map[*pair]*pairRequests) {
	ends := func(r *netRequest) bool { return of[r.pair] != nil }
	before := l.first.len() + l.bulk.len()
	for _, r := range l.first.takeIf(ends) {
		of[r.pair].first = append(of[r.pair].first, r)
	}
	for _, r := range l.bulk.takeIf(ends) {
		of[r.pair].bulk = append(of[r.pair].bulk, r)
	}
	l.queued.Add(int64(l.first.len() + l.bulk.len() - before))
	for _, r := range l.reads.takeIf(ends) {
		of[r.pair].reads = append(of[r.pair].reads, r)
	}
	l.reading.Store(int64(l.reads.len()))
	for _, id := range slices.Sorted(maps.Keys(l.offered)) { // in a fixed order, for simulations
		if r := l.offered[id]; ends(r) {
			of[r.pair].offered = append(of[r.pair].offered, r)
			delete(l.offered, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.receiving)) {
		if r := l.receiving[id]; ends(r) {
			of[r.pair].receiving = append(of[r.pair].receiving, r)
			delete(l.receiving, id)
		}
	}
}

// endRequests ends the requests of a pair that is over. The caller holds the monitor.
func (l *link) endRequests(p *pair, of *pairRequests) {
	for _, list := range [][]*netRequest{p.posted, of.first, of.bulk, of.reads} { // none is moving
		for _, r := range list {
			r.endWith(p.err)
		}
	}
	clear(p.posted)
	p.posted = p.posted[:0]
	for _, r := range of.offered {
		l.withdrawOffer(r)
		r.endWith(p.err)
	}
	for _, r := range of.receiving {
		if !r.moving {
			r.endWith(p.err)
		}
	}
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
		l.endPairs(false, func(p *pair) error { return &PeerLost{Rank: p.remote, Generation: l.world.generation, Cause: cause} })
		l.control = queue[controlFrame]{}
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
