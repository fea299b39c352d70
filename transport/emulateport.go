package transport

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// seenLate is the delay with which the arrival of a piece may be noticed, because a
// goroutine must wake up for it. The port does not count as idle during that time.
const seenLate = 50 * time.Microsecond

// port is one direction of a rank's link. Pieces pass it one after the other.
type port struct {
	env env.Env

	mon  env.Monitor   // guards the fields below
	free time.Duration // when the last piece has passed
	held bool          // a goroutine has the turn
	next []*env.Event  // goroutines that wait for a turn, in order
}

func newPort(e env.Env, name string) *port { return &port{env: e, mon: e.Monitor(name)} }

// departPiece waits for its turn and until the port is free, and returns the time when
// the piece has left. waitUntil waits for a time. Waiting goroutines are served in order.
func (p *port) departPiece(ready, takes time.Duration, until func(time.Duration)) time.Duration {
	p.acquireTurn()
	p.mon.Lock()
	free := p.free
	p.mon.Unlock()
	until(free)
	p.mon.Lock()
	defer p.mon.Unlock()
	p.free = max(p.free, ready) + takes
	left := p.free
	p.releaseTurn()
	return left
}

// acquireTurn waits for a turn.
func (p *port) acquireTurn() {
	p.mon.Lock()
	if !p.held {
		p.held = true
		p.mon.Unlock()
		return
	}
	turn := env.NewEvent(p.env, "turn")
	p.next = append(p.next, turn)
	p.mon.Unlock()
	_ = turn.Wait()
}

// releaseTurn gives the turn to the next goroutine. The caller holds the monitor.
func (p *port) releaseTurn() {
	if len(p.next) == 0 {
		p.held = false
		return
	}
	p.next[0].Set(nil)
	p.next = p.next[1:]
}

// arrivePiece returns the time when a piece has passed the port whose arrival is noticed
// now. The port receives pieces as they arrive.
func (p *port) arrivePiece(takes time.Duration) time.Duration {
	now := p.env.Now()
	p.mon.Lock()
	defer p.mon.Unlock()
	p.free = max(p.free, now-takes-seenLate) + takes
	return max(now, p.free)
}
