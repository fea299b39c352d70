package launcher

import (
	"fmt"
	"slices"
)

// workerPhase is how far a supervisor's worker has come.
type workerPhase int

const (
	workerNone workerPhase = iota
	workerForming
	workerRunning // it knows the world of the generation
	workerEnded
)

// member is the state machine of one supervisor.
//
// Invariant: at most one worker lives; the job hears once of the end of each
// incarnation that it has not given up itself; no worker is left behind: doLeave
// comes after doKill wherever one may live.
type member struct {
	supervisor int
	limits     limits

	met         bool      // the job hears us
	said        []message // to the job, which may not have heard: a new leader is told again
	process     int       // whose worker it is
	generation  uint64
	incarnation int // of the worker that lives, or lived last
	wanted      int // incarnation to start when the one that lives is gone; 0: none
	worker      workerPhase
	report      *Report
	aborted     bool // our worker is to end because another failed
	killed      bool // we killed it for that
	silent      bool // we killed it because nothing was heard of it
	signalled   bool // this process got a signal
	left        bool
}

// lead says that somebody leads the job, and hears us from now on.
func (s *member) lead() []action {
	s.met = true
	var out []action
	for _, m := range s.said {
		out = append(out, action{Do: doTellJob, Message: m})
	}
	return out
}

// say tells the job.
func (s *member) say(m message) action {
	s.said = append(s.said, m)
	return action{Do: doTellJob, Message: m}
}

// hear takes what the job says.
func (s *member) hear(m message) []action {
	if s.left {
		return nil
	}
	switch m.Kind {
	case kindForm:
		return s.form(m)
	case kindWorld:
		if !s.heeded() || m.World.Generation != s.generation || s.worker == workerRunning {
			return nil // it ended, or is to end; the job hears so, or knows; or it is told twice
		}
		s.worker = workerRunning
		return []action{{Do: doTellWorker, Message: m}}
	case kindStop, kindLeave:
		if s.heeded() {
			return []action{{Do: doTellWorker, Message: m}}
		}
	case kindAbort:
		if s.alive() && !s.aborted {
			s.aborted = true
			return []action{{Do: doTimer, After: s.limits.end}, {Do: doTellWorker, Message: m}}
		}
	case kindFired:
		return s.fired(m)
	case kindKill:
		return s.leave(exitSignal+m.Signal, "")
	case kindEnd:
		return s.leave(m.Code, "")
	}
	return nil
}

// form sees to it that the worker of an incarnation listens for a generation.
func (s *member) form(m message) []action {
	known := m.Generation == s.generation && m.Incarnation == s.incarnation
	if m.Generation < s.generation || known && s.heeded() {
		return nil // of a leader that was, or told twice
	}
	s.generation, s.process = m.Generation, m.Process
	s.said = slices.DeleteFunc(s.said, func(m2 message) bool { return m2.settled(m) })
	switch {
	case m.Incarnation > s.incarnation && s.alive(): // its place is given away: first it must be gone
		s.wanted = m.Incarnation
		return []action{{Do: doKill}}
	case m.Incarnation > s.incarnation:
		return s.start(m.Incarnation)
	case s.heeded():
		s.worker = workerForming
		return []action{{Do: doTellWorker, Message: message{Kind: kindListen, Process: s.process, Generation: s.generation}}}
	}
	return nil // the job hears of its end
}

// settled reports whether the job, which forms as told, needs to hear a message no more.
func (m message) settled(form message) bool {
	switch m.Kind {
	case kindListening, kindDone, kindLost, kindCommitted:
		return m.Generation < form.Generation
	case kindEnded, kindFire:
		return m.Incarnation < form.Incarnation
	}
	return false
}

func (s *member) start(incarnation int) []action {
	s.incarnation, s.wanted, s.worker = incarnation, 0, workerForming
	s.report, s.aborted, s.killed, s.silent = nil, false, false, false
	return []action{{Do: doStart, Message: message{Process: s.process, Generation: s.generation, Incarnation: incarnation}}}
}

// hearWorker takes what our worker says.
func (s *member) hearWorker(m message) []action {
	if !s.heeded() {
		return nil
	}
	switch m.Kind {
	case kindReport:
		if s.report == nil {
			s.report = m.Report
		}
	case kindListening, kindDone, kindLost, kindCommitted:
		return []action{s.say(m)}
	case kindFire:
		return []action{s.say(message{Kind: kindFire, Fault: m.Fault, Incarnation: s.incarnation})}
	}
	return nil
}

// fired does what a fault is, if it may happen.
func (s *member) fired(m message) []action {
	if !s.heeded() || m.Incarnation != s.incarnation || m.Fault == nil {
		return nil
	}
	asked := slices.IndexFunc(s.said, func(said message) bool { return said.Kind == kindFire && said.Fault.Number == m.Fault.Number })
	if asked < 0 {
		return nil // it is answered twice
	}
	s.said = slices.Delete(s.said, asked, asked+1)
	tell := action{Do: doTellWorker, Message: m}
	if !m.Granted {
		return []action{tell}
	}
	switch m.Fault.Do {
	case FaultKill:
		return []action{{Do: doKill}}
	case FaultNode:
		return []action{{Do: doKill}, {Do: doDie}}
	case FaultStop:
		return []action{{Do: doPause, After: m.Fault.For}, tell}
	}
	return []action{tell}
}

// workerGone takes our worker's end.
func (s *member) workerGone(o outcome) []action {
	if s.left || !s.alive() {
		return nil
	}
	if s.wanted > 0 {
		return s.start(s.wanted)
	}
	s.worker = workerEnded
	o.Report, o.Culled = s.report, s.killed
	if s.silent {
		o.Why = "did not answer any more and was ended"
	}
	return []action{{Do: doTimer}, s.say(message{Kind: kindEnded, Incarnation: s.incarnation, Outcome: &o})}
}

// workerSilent says that nothing is heard of our worker.
func (s *member) workerSilent() []action {
	if s.left || !s.heeded() {
		return nil
	}
	s.silent = true
	return []action{{Do: doKill}}
}

// expire says that the time asked for is over.
func (s *member) expire() []action {
	if s.left || !s.aborted || !s.alive() {
		return nil
	}
	s.killed = true
	return []action{{Do: doKill}}
}

// askStop is a stop that our launcher asks for; it may ask more than once.
func (s *member) askStop(signal int) []action {
	switch {
	case s.left:
		return nil
	case !s.met:
		return s.leave(exitSignal+signal, "")
	}
	return []action{s.say(message{Kind: kindStop, Signal: signal})}
}

// askKill ends the job at once.
func (s *member) askKill(signal int) []action {
	if s.left {
		return nil
	}
	if !s.met {
		return s.leave(exitSignal+signal, "")
	}
	return append([]action{s.say(message{Kind: kindKill, Signal: signal})}, s.leave(exitSignal+signal, "")...)
}

// signal is a signal to this process: the first asks, the second insists.
func (s *member) signal(number int) []action {
	if s.signalled {
		return s.askKill(number)
	}
	s.signalled = true
	return s.askStop(number)
}

// loseJob says that nobody leads the job any more.
func (s *member) loseJob(why string) []action {
	if s.left {
		return nil
	}
	return s.leave(exitFailed, fmt.Sprintf("process %d ends: %s", s.supervisor, why))
}

func (s *member) alive() bool { return s.worker == workerForming || s.worker == workerRunning }

// heeded reports whether our worker lives and is not given up.
func (s *member) heeded() bool { return s.alive() && s.wanted == 0 }

func (s *member) leave(code int, text string) []action {
	s.left = true
	var out []action
	if text != "" {
		out = append(out, action{Do: doSay, Text: text})
	}
	if s.alive() {
		out = append(out, action{Do: doKill})
	}
	return append(out, action{Do: doLeave, Code: code})
}
