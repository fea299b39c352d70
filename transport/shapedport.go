package transport

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// seenLate is how much later than it came a piece may be seen to arrive, since a
// goroutine must wake up for it: the port is not taken to have been idle meanwhile.
const seenLate = 50 * time.Microsecond

// port is one direction of a rank's link. Pieces pass it one after the other.
type port struct {
	env env.Env

	mon  env.Monitor   // guards what follows
	free time.Duration // when the last piece has passed
	held bool          // a turn is being taken
	next []*env.Event  // who waits for a turn, in order
}

func newPort(e env.Env, name string) *port { return &port{env: e, mon: e.Monitor(name)} }

// depart waits until it is a piece's turn to leave and the port is free, and
// returns when the piece has left. until waits for a time. Those who wait are
// served in order.
func (p *port) depart(ready, takes time.Duration, until func(time.Duration)) time.Duration {
	p.acquire()
	p.mon.Lock()
	free := p.free
	p.mon.Unlock()
	until(free)
	p.mon.Lock()
	defer p.mon.Unlock()
	p.free = max(p.free, ready) + takes
	left := p.free
	p.release()
	return left
}

// acquire waits for a turn.
func (p *port) acquire() {
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

// release passes the turn on; the caller holds the monitor.
func (p *port) release() {
	if len(p.next) == 0 {
		p.held = false
		return
	}
	p.next[0].Set(nil)
	p.next = p.next[1:]
}

// arrive returns when a piece has passed that is seen to have come now, at a port
// that takes what is sent to it as it comes.
func (p *port) arrive(takes time.Duration) time.Duration {
	now := p.env.Now()
	p.mon.Lock()
	defer p.mon.Unlock()
	p.free = max(p.free, now-takes-seenLate) + takes
	return max(now, p.free)
}
