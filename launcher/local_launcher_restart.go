package launcher

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/internal/printable"
	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/wire"
)

// supervisorChild is a place that the local launcher fills with a supervisor.
type supervisorChild struct {
	child    *child
	conn     *wire.Conn
	began    time.Time // when child was started
	restarts int       // supervisors that were started in place of others, each soon after the last
	due      bool      // the next one is about to be started
}

// maxBackoff bounds how often the wait before a restart doubles.
const maxBackoff = 6

// backoff is the wait before the next supervisor is started. A supervisor that ends soon
// after its start doubles it; a long life resets it.
func (s *supervisorChild) backoff(first time.Duration) time.Duration {
	if time.Since(s.began) > first<<maxBackoff {
		s.restarts = 0
	}
	return first << min(s.restarts, maxBackoff)
}

// loseChild handles the end of a supervisor. If it ended before it joined, it is no
// member, and the job loses nothing.
func (l *localLauncher) loseChild(i int, state *os.ProcessState) {
	l.living--
	number, known := i, false
	l.controller.withJob(func(j *control.Job) {
		for _, m := range j.Roster() {
			if m.Place == i {
				number, known = m.Number, !m.Lost && !j.IsLauncher(m.Number)
			}
		}
	})
	switch s := &l.children[i]; {
	case !known && l.replacesLost() && !s.due:
		why := l.exitReason(s, state)
		l.printLine(fmt.Sprintf("process %d: the restarted supervisor ended before it joined the job (%s); the next one starts in %v", i, why,
			s.backoff(l.limits.revive)), false)
		l.restartLater(i)
	case known && l.controller.leading:
		l.controller.loseSupervisor(number)
	}
}

// killMember kills a lost supervisor, and has another started in its place.
func (l *localLauncher) killMember(number int) {
	i := 0
	l.controller.withJob(func(j *control.Job) { i = j.Roster()[number].Place })
	l.children[i].child.killAndWait(leaveLimit)
	if l.replacesLost() && !l.children[i].due {
		l.restartLater(i)
	}
}

// replacesLost reports whether lost supervisors are replaced.
func (l *localLauncher) replacesLost() bool { return l.spec.Elastic && !l.ended && l.signals == 0 }

// restartLater starts a supervisor after the place's backoff.
func (l *localLauncher) restartLater(i int) {
	s := &l.children[i]
	s.due = true
	time.AfterFunc(s.backoff(l.limits.revive), func() { l.post(func() { l.restartSupervisor(i) }) })
	s.restarts++
}

func (l *localLauncher) restartSupervisor(i int) {
	s := &l.children[i]
	s.due = false
	if !l.replacesLost() {
		return
	}
	l.printLine(fmt.Sprintf("process %d: its supervisor is started again (attempt %d)", i, s.restarts), false)
	if err := l.startSupervisor(i); err != nil {
		l.printLine(fmt.Sprintf("process %d: its supervisor cannot be started: %v; the next attempt is in %v", i, err,
			s.backoff(l.limits.revive)), false)
		l.restartLater(i)
	}
}

// exitReason is why a supervisor ended: the refusal that it sent, or how the system ended it.
func (l *localLauncher) exitReason(s *supervisorChild, state *os.ProcessState) string {
	const limit = 100 * time.Millisecond
	_ = s.conn.SetReadDeadline(time.Now().Add(limit)) // the other end is closed: Receive does not wait
	if m, err := s.conn.Receive(); err == nil && m.Kind == control.KindRefused {
		return printable.Clip(printable.JoinLines(m.Text), maxLineBytes)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Sprintf("signal %d", int(status.Signal()))
	}
	return fmt.Sprintf("exit code %d", state.ExitCode())
}
