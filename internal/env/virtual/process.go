package virtual

import (
	"errors"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// ErrDead is returned to a process that was killed.
var ErrDead = errors.New("virtual: the process is dead")

// Epoch is virtual time 0 from the view of sockets.
var Epoch = time.Unix(1_000_000_000, 0)

// Process is a process of the operating system: the Env of everything that runs in it.
type Process struct {
	// Dead reports whether the process was killed: tasks that still run in it have no effect outside.
	Dead bool

	s      *Scheduler
	name   string
	frozen bool    // stopped, as by SIGSTOP
	held   []*task // tasks that would be ready if it were not frozen
	thawed time.Duration
}

// NewProcess returns a process. Its name appears in reports.
func (s *Scheduler) NewProcess(name string) *Process { return &Process{s: s, name: name} }

// Name is the name of the process.
func (p *Process) Name() string { return p.name }

// Go implements env.Env.
func (p *Process) Go(name string, f func()) { p.s.startTask(p, name, f) }

// Now implements env.Env: time is virtual.
func (p *Process) Now() time.Duration { return p.s.now }

// Deadline implements env.Env.
func (p *Process) Deadline(d time.Duration) time.Time { return Epoch.Add(p.s.now + d) }

// Sleep implements env.Env.
func (p *Process) Sleep(d time.Duration) {
	if d <= 0 {
		p.s.yieldTurn()
		return
	}
	p.s.sleepUntil(p.s.now+d, nil, "time to pass")
}

// SleepFor is Sleep, with the reason for reports. It sleeps also for a time of 0.
func (p *Process) SleepFor(d time.Duration, why string) { p.s.sleepUntil(p.s.now+d, nil, why) }

// Do implements env.Env. On a dead process f is not run.
func (p *Process) Do(what string, f func() error) error {
	if most := p.s.o.SlowestWork; most > 0 && !p.s.ending && p.s.o.Draw.IntN(2) == 0 {
		p.s.sleepUntil(p.s.now+time.Duration(p.s.o.Draw.Int64N(int64(most))), nil, what)
	}
	if p.Dead {
		return ErrDead
	}
	if p.s.fail != nil {
		if err := p.s.fail(what); err != nil {
			return err
		}
	}
	return f()
}

// Monitor implements env.Env.
func (p *Process) Monitor(name string) env.Monitor { return &monitor{s: p.s, name: name} }

// Freeze stops a process. Thaw resumes it.
func (p *Process) Freeze() { p.frozen = true }

func (p *Process) Thaw() {
	p.frozen, p.thawed = false, p.s.now
	p.s.ready = append(p.s.ready, p.held...)
	p.held = nil
}

// IsFrozen reports whether a process is frozen. WasFrozen reports whether it is, or was within the given time.
func (p *Process) IsFrozen() bool { return p.frozen }
func (p *Process) WasFrozen(ago time.Duration) bool {
	return p.frozen || p.thawed > 0 && p.s.now-p.thawed < ago
}

// monitor is a mutex with a condition variable.
//
// Invariant: a task in waiting or blocked is not ready.
type monitor struct {
	s       *Scheduler
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
	if len(s.ready) > 0 {
		s.MaybeYield()
	}
	m.acquireLock()
}

func (m *monitor) acquireLock() {
	t := m.s.current
	for m.holder != nil {
		if m.holder == t {
			panic("virtual: " + m.name + " locked twice by " + t.describe())
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
		panic("virtual: " + what + " of " + m.name + ", which " + m.s.current.describe() + " does not hold")
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
