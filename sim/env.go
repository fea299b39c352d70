package sim

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// node is a process as the scheduler knows it: the Env of all that runs in it.
type node struct {
	s      *scheduler
	name   string
	dead   bool    // killed: what still runs of it reaches nobody
	frozen bool    // stopped, as by SIGSTOP
	held   []*task // that would run if it were not
	thawed time.Duration
}

// node makes a process.
func (s *scheduler) node(name string) *node { return &node{s: s, name: name} }

// slowest is the most virtual time that a disk takes.
const slowest = 2 * time.Millisecond

// Go implements env.Env.
func (n *node) Go(name string, f func()) { n.s.begin(n, name, f) }

// Now implements env.Env: time is virtual.
func (n *node) Now() time.Duration { return n.s.now }

// Deadline implements env.Env.
func (n *node) Deadline(d time.Duration) time.Time { return epoch.Add(n.s.now + d) }

// Sleep implements env.Env.
func (n *node) Sleep(d time.Duration) {
	if d <= 0 {
		n.s.pass()
		return
	}
	n.s.sleep(n.s.now+d, nil, "time to pass")
}

// Do implements env.Env. The disk of a dead process does nothing.
func (n *node) Do(what string, f func() error) error {
	if !n.s.ending && n.s.draw.IntN(2) == 0 {
		n.s.sleep(n.s.now+time.Duration(n.s.draw.Int64N(int64(slowest))), nil, what)
	}
	if n.dead {
		return errDead
	}
	return f()
}

// Monitor implements env.Env.
func (n *node) Monitor(name string) env.Monitor { return &monitor{s: n.s, name: name} }

// freeze and thaw stop a process and let it go on.
func (n *node) freeze() { n.frozen = true }

func (n *node) thaw() {
	n.frozen, n.thawed = false, n.s.now
	n.s.ready = append(n.s.ready, n.held...)
	n.held = nil
}

// stood reports whether a process stands still, or did a while ago.
func (n *node) stood(ago time.Duration) bool {
	return n.frozen || n.thawed > 0 && n.s.now-n.thawed < ago
}

// monitor is a mutex with a condition.
//
// Invariant: a task in waiting or blocked is not ready.
type monitor struct {
	s       *scheduler
	name    string
	holder  *task
	waiting []*task // for Wake
	blocked []*task // for Unlock
}

// Lock implements env.Monitor. Now and then others go first.
func (m *monitor) Lock() {
	s := m.s
	if s.ending {
		return
	}
	if len(s.ready) > 0 && s.draw.IntN(s.yields) == 0 {
		s.pass()
	}
	m.take()
}

func (m *monitor) take() {
	t := m.s.current
	for m.holder != nil {
		if m.holder == t {
			panic("sim: " + m.name + " is locked twice by " + t.describe())
		}
		m.blocked = append(m.blocked, t)
		t.park("the lock of " + m.name + ", which " + m.holder.describe() + " holds")
	}
	m.holder = t
}

// Unlock implements env.Monitor.
func (m *monitor) Unlock() {
	if m.s.ending {
		return
	}
	m.held("Unlock")
	m.holder = nil
	m.s.ready = append(m.s.ready, m.blocked...)
	m.blocked = m.blocked[:0]
}

func (m *monitor) held(what string) {
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
	t.park(m.name)
	m.take()
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
	m.s.sleep(until, m, m.name)
	m.take()
}

// Wake implements env.Monitor.
func (m *monitor) Wake() {
	if m.s.ending {
		return
	}
	m.held("Wake")
	for _, t := range m.waiting {
		m.s.wake(t)
	}
	m.waiting = m.waiting[:0]
}
