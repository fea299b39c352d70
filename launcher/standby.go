package launcher

import (
	"time"

	"github.com/ecrec/ecrec/launcher/control"
)

// A standby is a worker without a world: it was started while the job trained, has prepared itself,
// and waits for the message with which any worker begins. It replaces the next worker that this
// supervisor must start, and saves the start of a process. The state machines see no difference.
//
// A standby has no process number, writes no file, listens on no port, takes no lock, and does not use
// Spec.Keep, which the living worker uses.

// startStandby starts a standby, if there should be one and is none. If that fails, a lost worker is
// replaced by a new process.
func (s *supervisor) startStandby() {
	if !s.spec.Standby || !s.spec.Elastic || s.standby != nil || s.left {
		return
	}
	w, err := s.spawnWorker()
	if err != nil {
		return
	}
	s.standby = w
	// An error means that it has ended already, which is an event of its own.
	_ = w.link.Send(control.Message{Kind: control.KindStandby, Processes: s.place.Processes - s.spec.Spares})
}

// takeStandby returns the standby as the worker to use next, nil if there is none.
func (s *supervisor) takeStandby() *workerChild {
	w := s.standby
	if s.standby = nil; w != nil {
		w.wasStandby = true
	}
	return w
}

// awaitStandby kills a standby that has become a worker and stays silent. A worker that starts may take longer, so the watchdog
// waits for its first message; a standby was started before. One that is suspended is killed after a limit. Another one may be slow, on a
// busy machine where a fresh process would be slower still: it has twice that time. A fresh process then has all the time that it needs.
func (s *supervisor) awaitStandby(w *workerChild) {
	limit := 2 * silentBeats * s.spec.Heartbeat
	time.AfterFunc(limit, func() {
		if !w.killIfSilent(w.isSuspended()) {
			time.AfterFunc(limit, func() { w.killIfSilent(true) })
		}
	})
}

// killIfSilent kills a worker that has not sent a message, if its time is over. It reports whether the worker was killed, or has sent one.
func (w *workerChild) killIfSilent(over bool) bool {
	if w.link.received.Load() > 0 {
		return true
	}
	if over {
		w.kill()
	}
	return over
}

// endChild handles the end of a worker, or of the standby. It is called a second time for a killed one whose lifeline
// has reported that, when it is reaped.
func (s *supervisor) endChild(w *workerChild, o control.Outcome) {
	if w.ended {
		return
	}
	w.ended = true
	switch {
	case w == s.standby:
		s.standby = nil
		time.AfterFunc(s.limits.revive, func() { s.post(s.startStandby) })
	case w != s.worker: // a standby that was replaced below
	case w.diedAsStandby():
		s.startWorker(s.listen)
	default:
		s.endWorker(o)
	}
}

// diedAsStandby reports whether a standby died before it did anything as a worker, and by itself: with
// the worker that it should replace, perhaps. A new process takes its place, and the job has lost nothing.
func (w *workerChild) diedAsStandby() bool {
	return w.wasStandby && !w.killed && w.link.received.Load() == 0
}
