package transport

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

const (
	// pollFor is how long Wait polls the rings before it sleeps, after the last
	// bytes that came: some futex round trips.
	pollFor = 30 * time.Microsecond
	// pollShared is the same where ranks share cores; the core is given away
	// between looks then. Two ranks that do nothing else for much longer keep a core
	// between them, while others wait for theirs.
	pollShared = 600 * time.Microsecond
	// looksAlone is how often Wait looks, where a rank has a core of its own, before
	// it lets the system run others there: the system may have thought otherwise.
	looksAlone = 32
	// dozeFor is how long bytes may lie in a ring that nobody waits for.
	dozeFor = 500 * time.Microsecond
	// maxPolled bounds the rings that Wait looks at; others have serve only.
	maxPolled = 64
)

// polling is how the goroutines of a process wait for its rings: Wait polls all of
// them for a short time, in which no bell is armed, then it sleeps, and the rings'
// serve goroutines take over.
type polling struct {
	env    env.Env
	rings  []*shm // fixed before the first request
	shared bool   // ranks share cores: who polls may keep the one it waits for from running

	pollers atomic.Int32
	polls   atomic.Uint64 // that are over

	mon      env.Monitor // guards what follows
	sleepers int         // in netRequest.Wait
}

// help moves bytes until r has ended, for a short time. It reports whether r has
// ended; else await must follow.
func (g *polling) help(r *netRequest) bool {
	entered := uint64(0)
	for i, s := range g.rings {
		if i < maxPolled && s.enter() {
			entered |= 1 << i
		}
	}
	if g.pollers.Add(1) == 1 {
		g.each(entered, (*shm).disarm)
	}
	g.poll(r, entered)
	g.each(entered, func(s *shm) { s.pumpOut() }) // answers to what came last
	g.polls.Add(1)
	last := g.pollers.Add(-1) == 0
	over := r.over.Load()
	if last && over { // a serve that sleeps trusts its bell, which is disarmed
		g.each(entered, (*shm).rouse)
	}
	g.each(entered, (*shm).leave)
	return over
}

func (g *polling) each(entered uint64, f func(*shm)) {
	for i, s := range g.rings {
		if entered&(1<<i) != 0 {
			f(s)
		}
	}
}

func (g *polling) poll(r *netRequest, entered uint64) {
	limit, looks := pollFor, looksAlone // looks between those at the clock
	if g.shared {
		limit, looks = pollShared, 1
	}
	until := g.env.Now() + limit
	for i := 1; !r.over.Load(); i++ {
		moved := false
		for k, s := range g.rings {
			if entered&(1<<k) != 0 && s.move() {
				moved = true
			}
		}
		switch {
		case moved:
			until = g.env.Now() + limit
		case i%looks == 0:
			if g.env.Now() > until {
				return
			}
			osYield()
			if i%1024 == 0 {
				runtime.Gosched()
			}
		}
	}
}

// await says that a goroutine sleeps from now on until its request ends, which
// takes serve; awaited that it no longer does.
func (g *polling) await() {
	g.mon.Lock()
	g.sleepers++
	g.mon.Wake()
	g.mon.Unlock()
	for _, s := range g.rings {
		if s.asleep.Load() && s.enter() {
			s.mine.armed.Store(1)
			s.leave()
			s.pump()
		}
	}
}

func (g *polling) awaited() {
	g.mon.Lock()
	g.sleepers--
	g.mon.Unlock()
}

// doze waits a little, while goroutines poll now and then and none sleeps: the bell
// stays disarmed, since nobody waits for it. It reports false where that is over.
func (g *polling) doze(pollsSeen *uint64) bool {
	g.mon.Lock()
	defer g.mon.Unlock()
	polls := g.polls.Load()
	if g.sleepers > 0 || polls == *pollsSeen {
		return false
	}
	*pollsSeen = polls
	g.mon.WaitUntil(g.env.Now() + dozeFor)
	return true
}

// wake ends dozes.
func (g *polling) wake() {
	g.mon.Lock()
	g.mon.Wake()
	g.mon.Unlock()
}
