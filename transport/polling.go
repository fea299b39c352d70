package transport

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

const (
	// pollFor is how long Wait polls the rings, or a connection, after the last bytes
	// arrived, before it sleeps. Most messages of a small step arrive within that time.
	pollFor = 250 * time.Microsecond
	// pollShared is the same if ranks share cores. The core is then yielded between
	// polls. If two ranks poll for much longer than this, they keep a core from the
	// others.
	pollShared = 120 * time.Microsecond
	// pollsPerYield is the number of polls between yields if a rank has a core of its
	// own, in case the kernel has scheduled others there.
	pollsPerYield = 32
	// napFor is how long bytes may stay in a ring for which no goroutine waits.
	napFor = 500 * time.Microsecond
	// maxPolled limits the rings that Wait polls; the others have only serveRings.
	maxPolled = 64
)

// polling lets the goroutines of a process wait for its rings. Wait polls all rings for a
// short time, during which no doorbell is armed. Then it sleeps, and the serveRings
// goroutines of the rings take over.
type polling struct {
	env    env.Env
	rings  []*shm // fixed before the first request
	shared bool   // ranks share cores: a polling rank may keep the rank that it waits for from running
	crowd  bool   // the same within this process, whose ranks share the threads of the Go runtime

	pollers atomic.Int32
	polls   atomic.Uint64 // number of polls that are over

	mon      env.Monitor // guards sleepers
	sleepers int         // in netRequest.Wait
}

// pollUntilDone moves bytes for a short time, until r has ended. It reports whether r has
// ended. If not, the caller must call beginSleep.
func (g *polling) pollUntilDone(r *netRequest) bool {
	entered := uint64(0)
	for i, s := range g.rings {
		if i < maxPolled && s.acquireMapping() {
			entered |= 1 << i
		}
	}
	if g.pollers.Add(1) == 1 {
		g.forEachRing(entered, (*shm).disarmDoorbell)
	}
	g.pollRings(r, entered)
	g.forEachRing(entered, func(s *shm) { s.pumpOut() }) // answers to the last frames received
	g.polls.Add(1)
	last := g.pollers.Add(-1) == 0
	over := r.over.Load()
	if last && over { // a serveRings that sleeps relies on its doorbell, which is disarmed
		g.forEachRing(entered, (*shm).wakeServer)
	}
	g.forEachRing(entered, (*shm).releaseMapping)
	return over
}

func (g *polling) forEachRing(entered uint64, f func(*shm)) {
	for i, s := range g.rings {
		if entered&(1<<i) != 0 {
			f(s)
		}
	}
}

func (g *polling) pollRings(r *netRequest, entered uint64) {
	limit, looks := pollFor, pollsPerYield // polls between reads of the clock
	if g.shared {
		limit, looks = pollShared, 1
	}
	until := g.env.Now() + limit
	for i := 1; !r.over.Load(); i++ {
		moved := false
		for k, s := range g.rings {
			if entered&(1<<k) != 0 && s.moveSome() {
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
			if g.crowd || i%1024 == 0 { // the kernel does not run another goroutine on this thread
				runtime.Gosched()
			}
		}
	}
}

// beginSleep records that a goroutine sleeps until its request ends, for which serveRings
// must be awake. endSleep records that it no longer does.
func (g *polling) beginSleep() {
	g.mon.Lock()
	g.sleepers++
	g.mon.Wake()
	g.mon.Unlock()
	for _, s := range g.rings {
		if s.asleep.Load() && s.acquireMapping() {
			s.mine.Store(1)
			s.releaseMapping()
			s.moveAll()
		}
	}
}

func (g *polling) endSleep() {
	g.mon.Lock()
	g.sleepers--
	g.mon.Unlock()
}

// napWhilePolled waits briefly while goroutines poll from time to time and none sleeps.
// The doorbell stays disarmed, because no goroutine waits for it. It reports false if
// that no longer holds.
func (g *polling) napWhilePolled(pollsSeen *uint64) bool {
	g.mon.Lock()
	defer g.mon.Unlock()
	polls := g.polls.Load()
	if g.sleepers > 0 || polls == *pollsSeen {
		return false
	}
	*pollsSeen = polls
	g.mon.WaitUntil(g.env.Now() + napFor)
	return true
}

// endNaps wakes goroutines in napWhilePolled.
func (g *polling) endNaps() {
	g.mon.Lock()
	g.mon.Wake()
	g.mon.Unlock()
}
