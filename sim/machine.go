package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// machine is one of the computers of a cluster: a supervisor, which asks the register
// every heartbeat, and the worker that it runs, if any. What it does is what package
// launcher does with real processes.
type machine struct {
	*node  // of the supervisor
	c      *cluster
	number int
	mon    env.Monitor // guards what follows

	world  *world // the newest that it knows
	worker *process
	leased time.Duration // when it sent the last request that was answered
	event  bool          // something has happened that the supervisor has not seen

	looked time.Duration // when it last looked whether the worker lives
	// What the worker has said: which process it does not reach (or nobody, or anybody)
	// in a generation; in which there was a commit; in which it was done.
	unreached                int
	inWorld, committed, done uint64
}

const (
	nobody  = -1
	anybody = -2 // it is not clear who
)

// After so many heartbeats a silent worker is lost, and a silent machine.
const (
	silentBeats = 5
	leaseBeats  = 8
)

// The most that a worker takes to start, and, when its work is done, to say so.
const (
	slowestRestart = 300 * time.Millisecond
	slowestEnd     = 300 * time.Millisecond
)

// lease is how long a machine is taken to live that says nothing.
func (c *cluster) lease() time.Duration { return leaseBeats * c.heartbeat() }

func (c *cluster) heartbeat() time.Duration { return time.Duration(c.cfg.Elastic.Heartbeat) }

// power starts a machine. One that comes back has a new number.
func (c *cluster) power() {
	number := len(c.machines)
	m := &machine{c: c, number: number, unreached: nobody, leased: c.s.now}
	m.node = c.s.node(fmt.Sprintf("supervisor %d", number))
	m.mon = m.Monitor(fmt.Sprintf("supervisor %d", number))
	c.machines = append(c.machines, m)
	c.register.heard = append(c.register.heard, c.s.now)
	m.Go("main", m.main)
}

// main is the life of a supervisor.
func (m *machine) main() {
	a := m.ask(nil)
	for a != nil {
		m.learn(a.world)
		if next := m.propose(a); next != nil {
			a = m.ask(func(r *register) { r.propose(next) })
			continue
		}
		w, number := a.world, m.number
		switch process := w.of(number); {
		case process < 0 && !slices.Contains(w.spares, number):
			a = m.ask(func(r *register) { r.offer(number) })
			continue
		case process >= 0 && m.done == w.generation:
			a = m.ask(func(r *register) { r.finish(w.generation, process) })
		default:
			a = m.ask(nil)
		}
		if a != nil && a.world == w {
			m.await()
		}
	}
}

// await waits for something to happen, at most for a heartbeat.
func (m *machine) await() {
	until := m.Now() + m.c.heartbeat()
	m.mon.Lock()
	for !m.event && !m.dead && !m.c.over && m.Now() < until {
		m.mon.WaitUntil(until)
	}
	m.event = false
	m.mon.Unlock()
	m.keepVigil()
}

// keepVigil ends the worker where it is silent, and where this machine was not heard for
// so long that its place may be given away.
func (m *machine) keepVigil() {
	p, now := m.worker, m.Now()
	stood := now-m.looked > 2*m.c.heartbeat() // this machine itself
	m.looked = now
	switch {
	case p == nil || p.dead:
	case now-m.leased > m.c.lease()-m.c.heartbeat():
		p.kill()
	case stood && p.beaten > 0:
		p.beaten = now
	case p.beaten > 0 && now-p.beaten > silentBeats*m.c.heartbeat():
		p.kill()
	}
}

// learn has the worker be the one that the world says, and tells it the world.
func (m *machine) learn(w *world) {
	if m.world != nil && w.generation <= m.world.generation {
		return
	}
	m.world, m.unreached = w, nobody
	number := w.of(m.number)
	if p := m.worker; p != nil && (number != p.number || w.seats[number].incarnation != p.incarnation) {
		p.kill() // its place is another's
		m.worker = nil
	}
	switch {
	case m.worker != nil:
		m.worker.tell(w)
	case number >= 0:
		m.start(number, w)
	}
}

// propose is the world that should follow, nil if none should.
func (m *machine) propose(a *answer) *world {
	w := a.world.next()
	because := func(format string, args ...any) { w.why = append(w.why, fmt.Sprintf(format, args...)) }
	if m.committed == a.world.generation {
		for i := range w.seats {
			w.seats[i].accused = false
		}
	}
	w.spares = slices.DeleteFunc(w.spares, func(s int) bool { return slices.Contains(a.silent, s) })
	for p := range w.seats {
		s := &w.seats[p]
		switch mine := s.machine == m.number; {
		case s.gone():
		case slices.Contains(a.silent, s.machine) && !mine:
			if w.replace(p) {
				because("machine %d is silent, which had process %d", a.world.seats[p].machine, p)
			}
		case mine && m.worker != nil && m.worker.dead && m.worker.incarnation == s.incarnation:
			because("process %d has died", p)
			s.incarnation++
		}
	}
	// Where something was lost, that is why others are not reached.
	switch p := m.unreached; {
	case w.why != nil || m.inWorld != a.world.generation:
	case p == anybody:
		because("machine %d does not reach somebody", m.number)
	case p != nobody && !w.seats[p].gone():
		s := &w.seats[p]
		because("machine %d does not reach process %d", m.number, p)
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

// replace gives a process to a spare, or its ranks to the processes with the fewest; it
// reports false where there is nobody.
func (w *world) replace(process int) bool {
	s := &w.seats[process]
	if len(w.spares) > 0 {
		s.machine, s.incarnation, s.accused = w.spares[0], s.incarnation+1, false
		w.spares = w.spares[1:]
		return true
	}
	ranks := s.ranks
	s.ranks = nil
	for _, r := range ranks {
		least := nobody
		for p := range w.seats {
			if q := &w.seats[p]; !q.gone() && (least == nobody || len(q.ranks) < len(w.seats[least].ranks)) {
				least = p
			}
		}
		if least == nobody {
			s.ranks = ranks
			return false
		}
		heir := &w.seats[least]
		at, _ := slices.BinarySearch(heir.ranks, r)
		heir.ranks = slices.Insert(heir.ranks, at, r)
	}
	return true
}

// tell wakes the supervisor for something that its worker says or does.
func (m *machine) tell(note func()) {
	m.mon.Lock()
	note()
	m.event = true
	m.mon.Wake()
	m.mon.Unlock()
}

// lose takes the power from a machine: nothing of it is heard any more.
func (m *machine) lose() {
	m.c.net.down[m.number] = true
	if p := m.worker; p != nil {
		p.end(true)
	}
	m.dead = true
	if m.frozen {
		m.thaw()
	}
	wake(m.mon)
}
