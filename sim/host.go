package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/env/virtual"
	"github.com/ecrec/ecrec/internal/heartbeat"
)

// host is a host of a cluster. It has a supervisor, which sends the register a request
// every heartbeat, and the worker that it runs, if any. It behaves like the real
// processes of package launcher.
type host struct {
	*virtual.Process // of the supervisor
	c                *cluster
	number           int
	machine          *machine
	mon              env.Monitor // guards the fields below

	world        *world // the newest known
	worker       *process
	lastAnswered time.Duration // when it sent the last request that was answered
	event        bool          // an event that the supervisor has not handled

	lastCheck time.Duration // last check of the worker
	// Reports of the worker: the process that it cannot reach (or noProcess, or
	// unknownProcess) in a generation; the generation in which there was a commit; the
	// generation in which its work was done.
	unreached                int
	inWorld, committed, done uint64
}

// A host that is silent for this many heartbeats is replaced. A silent worker is lost
// after heartbeat.Missed.
const leaseBeats = 8

// The maximum time that a worker takes to start, and to report the end of its work.
const (
	slowestRestart = 300 * time.Millisecond
	slowestEnd     = 300 * time.Millisecond
)

// leaseTime is how long a silent host counts as alive.
func (c *cluster) leaseTime() time.Duration { return leaseBeats * c.heartbeatTime() }

func (c *cluster) heartbeatTime() time.Duration { return time.Duration(c.cfg.Elastic.Heartbeat) }

// startHost starts a host on a machine. A host that restarts has a new number.
func (c *cluster) startHost(m *machine) {
	number := len(c.hosts)
	h := &host{c: c, number: number, machine: m, unreached: noProcess, lastAnswered: c.s.Now()}
	h.Process = c.s.NewProcess(fmt.Sprintf("supervisor %d", number))
	h.mon = h.Monitor(fmt.Sprintf("supervisor %d", number))
	c.hosts = append(c.hosts, h)
	c.register.lastRequest = append(c.register.lastRequest, c.s.Now())
	h.Go("main", h.supervise)
}

// supervise is the main function of a supervisor.
func (h *host) supervise() {
	a := h.request(nil)
	for a != nil {
		h.updateWorker(a.world)
		if next := h.nextWorld(a); next != nil {
			a = h.request(func(r *register) { r.adoptWorld(next) })
			continue
		}
		w, number := a.world, h.number
		switch process := w.processOn(number); {
		case process < 0 && !slices.Contains(w.spares, number):
			a = h.request(func(r *register) { r.addSpare(number) })
			continue
		case process >= 0 && h.done == w.generation:
			a = h.request(func(r *register) { r.finishProcess(w.generation, process) })
		default:
			a = h.request(nil)
		}
		if a != nil && a.world == w {
			h.awaitEvent()
		}
	}
}

// awaitEvent waits for an event, at most for a heartbeat.
func (h *host) awaitEvent() {
	until := h.Now() + h.c.heartbeatTime()
	h.mon.Lock()
	for !h.event && !h.Dead && !h.c.over && h.Now() < until {
		h.mon.WaitUntil(until)
	}
	h.event = false
	h.mon.Unlock()
	h.checkSilence()
}

// checkSilence ends the worker if it is silent. It also ends the worker if the register
// may not have received a request of this host for so long that the host may be replaced.
func (h *host) checkSilence() {
	p, now := h.worker, h.Now()
	stood := now-h.lastCheck > 2*h.c.heartbeatTime() // this host itself was stopped
	h.lastCheck = now
	switch {
	case p == nil || p.Dead:
	case now-h.lastAnswered > h.c.leaseTime()-h.c.heartbeatTime():
		p.killProcess()
	case stood && p.lastBeat > 0:
		p.lastBeat = now
	case p.lastBeat > 0 && now-p.lastBeat > heartbeat.Missed*h.c.heartbeatTime():
		p.killProcess()
	}
}

// updateWorker replaces the worker if the world names another, and passes the world to it.
func (h *host) updateWorker(w *world) {
	if h.world != nil && w.generation <= h.world.generation {
		return
	}
	h.world, h.unreached = w, noProcess
	number := w.processOn(h.number)
	if p := h.worker; p != nil && (number != p.number || w.slots[number].incarnation != p.incarnation) {
		p.killProcess() // another incarnation has its slot
		h.worker = nil
	}
	switch {
	case h.worker != nil:
		h.worker.setWorld(w)
	case number >= 0:
		h.startProcess(number, w)
	}
}

// nextWorld returns the world that should follow, nil if none.
func (h *host) nextWorld(a *answer) *world {
	w := a.world.copyNext()
	because := func(format string, args ...any) { w.why = append(w.why, fmt.Sprintf(format, args...)) }
	if h.committed == a.world.generation {
		for i := range w.slots {
			w.slots[i].accused = false
		}
	}
	w.spares = slices.DeleteFunc(w.spares, func(s int) bool { return slices.Contains(a.silent, s) })
	for p := range w.slots {
		s := &w.slots[p]
		switch mine := s.host == h.number; {
		case s.isReassigned():
		case slices.Contains(a.silent, s.host) && !mine:
			if w.reassign(p) {
				because("host %d of process %d is silent", a.world.slots[p].host, p)
			}
		case mine && h.worker != nil && h.worker.Dead && h.worker.incarnation == s.incarnation:
			because("process %d died", p)
			s.incarnation++
			s.accused = false // the new process is not
		}
	}
	// If something was lost, that explains why others cannot be reached.
	switch p := h.unreached; {
	case w.why != nil || h.inWorld != a.world.generation:
	case p == unknownProcess:
		because("host %d cannot reach an unknown process", h.number)
	case p != noProcess && !w.slots[p].isReassigned():
		s := &w.slots[p]
		because("host %d cannot reach process %d", h.number, p)
		if s.accused {
			because("again")
			s.incarnation++
		}
		s.accused = !s.accused
	}
	if w.why == nil {
		return nil
	}
	return w
}

// notify wakes the supervisor for an event of its worker.
func (h *host) notify(note func()) {
	h.mon.Lock()
	note()
	h.event = true
	h.mon.Wake()
	h.mon.Unlock()
}

// losePower takes the power from a host. None of its messages arrive any more.
func (h *host) losePower() {
	h.c.net.down[h.number] = true
	if p := h.worker; p != nil {
		p.endProcess(true)
	}
	h.machine.losePower()
	h.Dead = true
	if h.IsFrozen() {
		h.Thaw()
	}
	wake(h.mon)
}
