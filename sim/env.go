package sim

import (
	"errors"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// errDead is returned to a process that was killed.
var errDead = errors.New("sim: the process is dead")

// epoch is virtual time 0 from the view of sockets.
var epoch = time.Unix(1_000_000_000, 0)

// osProcess is a process from the view of the scheduler: the Env of everything that runs in
// it.
type osProcess struct {
	s      *scheduler
	name   string
	dead   bool    // killed: tasks that still run in it have no effect outside
	frozen bool    // stopped, as by SIGSTOP
	held   []*task // tasks that would be ready if it were not frozen
	thawed time.Duration
}

// newProcess returns a process.
func (s *scheduler) newProcess(name string) *osProcess { return &osProcess{s: s, name: name} }

// slowest is the maximum virtual time of a disk operation.
const slowest = 2 * time.Millisecond

// Go implements env.Env.
func (n *osProcess) Go(name string, f func()) { n.s.startTask(n, name, f) }

// Now implements env.Env: time is virtual.
func (n *osProcess) Now() time.Duration { return n.s.now }

// Deadline implements env.Env.
func (n *osProcess) Deadline(d time.Duration) time.Time { return epoch.Add(n.s.now + d) }

// Sleep implements env.Env.
func (n *osProcess) Sleep(d time.Duration) {
	if d <= 0 {
		n.s.yieldTurn()
		return
	}
	n.s.sleepUntil(n.s.now+d, nil, "time to pass")
}

// Do implements env.Env. On a dead process f is not run.
func (n *osProcess) Do(what string, f func() error) error {
	if !n.s.ending && n.s.draw.IntN(2) == 0 {
		n.s.sleepUntil(n.s.now+time.Duration(n.s.draw.Int64N(int64(slowest))), nil, what)
	}
	if n.dead {
		return errDead
	}
	if n.s.fail != nil {
		if err := n.s.fail(what); err != nil {
			return err
		}
	}
	return f()
}

// Monitor implements env.Env.
func (n *osProcess) Monitor(name string) env.Monitor { return &monitor{s: n.s, name: name} }

// freeze stops a process. thaw resumes it.
func (n *osProcess) freeze() { n.frozen = true }

func (n *osProcess) thaw() {
	n.frozen, n.thawed = false, n.s.now
	n.s.ready = append(n.s.ready, n.held...)
	n.held = nil
}

// wasFrozen reports whether a process is frozen, or was within the given time.
func (n *osProcess) wasFrozen(ago time.Duration) bool {
	return n.frozen || n.thawed > 0 && n.s.now-n.thawed < ago
}

// monitor is a mutex with a condition variable.
//
// Invariant: a task in waiting or blocked is not ready.
type monitor struct {
	s       *scheduler
	name    string
	holder  *task
	waiting []*task // for Wake
	blocked []*task // for Unlock
}

// Lock implements env.Monitor. Occasionally it lets other tasks run first.
func (m *monitor) Lock() {
	s := m.s
	if s.ending {
		return
	}
	if len(s.ready) > 0 && s.draw.IntN(s.yields) == 0 {
		s.yieldTurn()
	}
	m.acquireLock()
}

func (m *monitor) acquireLock() {
	t := m.s.current
	for m.holder != nil {
		if m.holder == t {
			panic("sim: " + m.name + " locked twice by " + t.describe())
		}
		m.blocked = append(m.blocked, t)
		t.parkTask("the lock of " + m.name + ", which " + m.holder.describe() + " holds")
	}
	m.holder = t
}

// Unlock implements env.Monitor.
func (m *monitor) Unlock() {
	if m.s.ending {
		return
	}
	m.checkHeld("Unlock")
	m.holder = nil
	m.s.ready = append(m.s.ready, m.blocked...)
	m.blocked = m.blocked[:0]
}

func (m *monitor) checkHeld(what string) {
	if m.holder != m.s.current {
		panic("sim: " + what + " of " + m.name + ", which " + m.s.current.describe() + " does not hold")
	}
}

// Wait implements env.Monitor.
func (m *monitor) Wait() {
	if m.s.ending {
		panic(unwound{})
	}
	t := m.s.current
	m.Unlock()
	t.on = m
	m.waiting = append(m.waiting, t)
	t.parkTask(m.name)
	m.acquireLock()
}

// WaitUntil implements env.Monitor.
func (m *monitor) WaitUntil(until time.Duration) {
	if m.s.ending {
		panic(unwound{})
	}
	if until <= m.s.now {
		return
	}
	m.Unlock()
	m.s.sleepUntil(until, m, m.name)
	m.acquireLock()
}

// Wake implements env.Monitor.
func (m *monitor) Wake() {
	if m.s.ending {
		return
	}
	m.checkHeld("Wake")
	for _, t := range m.waiting {
		m.s.wakeTask(t)
	}
	m.waiting = m.waiting[:0]
}
