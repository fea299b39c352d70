package control

import (
	"fmt"
	"slices"

	eventlog "github.com/ecrec/ecrec/internal/event"
)

// workerPhase is the progress of a supervisor's worker.
type workerPhase int

const (
	workerNone workerPhase = iota
	workerForming
	workerRunning // it has the membership of the generation
	workerEnded
)

// Supervisor is the state machine of one supervisor.
//
// Invariant: at most one worker lives. The job receives the end of each incarnation once,
// unless it has given that up itself. No worker is left behind: DoLeave follows DoKill
// wherever one may live.
type Supervisor struct {
	number     int
	limits     Limits
	rendezvous string // its address, for messages

	joined      bool      // the job receives its messages
	sent        []Message // to the job, possibly lost with a leader: repeated to the next
	process     int       // of its worker
	generation  uint64
	incarnation int // of the worker that lives, or lived last
	wanted      int // incarnation to start once the live worker is gone; 0: none
	worker      workerPhase
	report      *Report
	aborted     bool // the worker should end because another failed
	culled      bool // it was killed for that
	silent      bool // it was killed because it missed heartbeats
	signalled   bool // this process received a signal
	left        bool
}

// NewSupervisor is the supervisor of a process before its first event. rendezvous is
// the address at which it joins, for messages.
func NewSupervisor(number int, limits Limits, rendezvous string) *Supervisor {
	return &Supervisor{number: number, limits: limits, rendezvous: rendezvous}
}

// Renumber changes the supervisor's number, when it has joined a running job.
func (s *Supervisor) Renumber(number int) { s.number = number }

// Step applies the next event and returns the actions that follow.
func (s *Supervisor) Step(e Event) []Action {
	if s.left && e.Kind != EventLed {
		return nil
	}
	switch e.Kind {
	case EventLed:
		return s.repeatSent()
	case EventLeaderless:
		return s.leaveJob(ExitFailed, fmt.Sprintf("process %d ends: %s", s.number, e.Text))
	case EventReceive:
		return s.receive(*e.Message)
	case EventWorker:
		return s.receiveFromWorker(*e.Message)
	case EventWorkerSilent:
		if s.hasUsableWorker() {
			s.silent = true
			return []Action{{Do: DoKill}}
		}
	case EventWorkerExited:
		return s.endWorker(*e.Outcome)
	case EventExpire:
		if s.aborted && s.hasWorker() {
			s.culled = true
			return []Action{{Do: DoKill}}
		}
	case EventSignal:
		if s.signalled {
			return s.killJob(e.Signal)
		}
		s.signalled = true
		return s.stopJob(e.Signal)
	case EventStop:
		return s.stopJob(e.Signal)
	case EventKill:
		return s.killJob(e.Signal)
	default:
		panic(fmt.Sprintf("launcher: a supervisor has no event %q", e.Kind))
	}
	return nil
}

// repeatSent repeats the messages to the job for a new leader.
func (s *Supervisor) repeatSent() []Action {
	s.joined = true
	var out []Action
	for _, m := range s.sent {
		out = append(out, Action{Do: DoSendJob, Message: m})
	}
	return out
}

// sendJob sends a message to the job, and keeps it for later leaders.
func (s *Supervisor) sendJob(m Message) Action {
	s.sent = append(s.sent, m)
	return Action{Do: DoSendJob, Message: m}
}

// receive handles a message of the job.
func (s *Supervisor) receive(m Message) []Action {
	switch m.Kind {
	case KindForm:
		return s.formWorker(m)
	case KindWorld:
		if !s.hasUsableWorker() || m.Membership.Generation != s.generation || s.worker == workerRunning {
			return nil // it has ended or must end, which is reported to the job; or the message is a repeated one
		}
		s.worker = workerRunning
		return []Action{{Do: DoSendWorker, Message: m}}
	case KindStop, KindLeave:
		if s.hasUsableWorker() {
			return []Action{{Do: DoSendWorker, Message: m}}
		}
	case KindAbort:
		if s.hasWorker() && !s.aborted {
			s.aborted = true
			return []Action{{Do: DoTimer, After: s.limits.End}, {Do: DoSendWorker, Message: m}}
		}
	case KindFired:
		return s.fireFault(m)
	case KindKill:
		return s.leaveJob(ExitSignal+m.Signal, "")
	case KindEnd:
		return s.leaveJob(m.Code, "")
	}
	return nil
}

// formWorker ensures that the worker of an incarnation listens for a generation.
func (s *Supervisor) formWorker(m Message) []Action {
	known := m.Generation == s.generation && m.Incarnation == s.incarnation
	if m.Generation < s.generation || known && s.hasUsableWorker() {
		return nil // from an earlier leader, or repeated
	}
	s.generation, s.process = m.Generation, m.Process
	s.sent = slices.DeleteFunc(s.sent, func(sent Message) bool { return sent.supersededBy(m) })
	switch {
	case m.Incarnation > s.incarnation && s.hasWorker(): // its place is given away: it must be gone first
		s.wanted = m.Incarnation
		return []Action{{Do: DoKill}}
	case m.Incarnation > s.incarnation:
		return s.startWorker(m.Incarnation)
	case s.hasUsableWorker():
		s.worker = workerForming
		return []Action{{Do: DoSendWorker, Message: Message{Kind: KindListen, Process: s.process, Generation: s.generation}}}
	}
	return nil // the job will receive its end
}

func (s *Supervisor) startWorker(incarnation int) []Action {
	s.incarnation, s.wanted, s.worker = incarnation, 0, workerForming
	s.report, s.aborted, s.culled, s.silent = nil, false, false, false
	return []Action{{Do: DoStart, Message: Message{Process: s.process, Generation: s.generation, Incarnation: incarnation}}}
}

// receiveFromWorker handles a message of the worker.
func (s *Supervisor) receiveFromWorker(m Message) []Action {
	if !s.hasUsableWorker() {
		return nil
	}
	switch m.Kind {
	case KindReport:
		if s.report == nil {
			s.report = m.Report
		}
	case KindListening, KindDone, KindUnreachable, KindCommitted:
		return []Action{s.sendJob(m)}
	case KindFire:
		return []Action{s.sendJob(Message{Kind: KindFire, Fault: m.Fault, Incarnation: s.incarnation})}
	}
	return nil
}

// fireFault handles the reply to a worker's request for a fault, and injects a granted one.
func (s *Supervisor) fireFault(m Message) []Action {
	if !s.hasUsableWorker() || m.Incarnation != s.incarnation || m.Fault == nil {
		return nil
	}
	asked := slices.IndexFunc(s.sent, func(sent Message) bool { return sent.Kind == KindFire && sent.Fault.Number == m.Fault.Number })
	if asked < 0 {
		return nil // a repeated reply
	}
	s.sent = slices.Delete(s.sent, asked, asked+1)
	answer := Action{Do: DoSendWorker, Message: m}
	if !m.Granted {
		return []Action{answer}
	}
	switch m.Fault.Do {
	case FaultKill:
		return []Action{{Do: DoKill}}
	case FaultNode:
		return []Action{{Do: DoKill}, {Do: DoDie}}
	case FaultStop:
		return []Action{{Do: DoPause, After: m.Fault.For}, answer}
	}
	return []Action{answer}
}

// endWorker handles the worker's end.
func (s *Supervisor) endWorker(o Outcome) []Action {
	if !s.hasWorker() {
		return nil
	}
	if s.wanted > 0 {
		return s.startWorker(s.wanted)
	}
	s.worker = workerEnded
	if r := s.report; s.culled && r != nil && r.Error != "" && !r.IsConsequence { // it has said why it fails, and was late to end
		o = Outcome{Code: r.Code, Log: o.Log, Tail: o.Tail}
		s.culled = false
	}
	o.Report, o.Culled = s.report, s.culled
	if s.silent {
		o.Why, o.Cause = "stopped answering and was killed", eventlog.Silent
	}
	return []Action{{Do: DoTimer}, s.sendJob(Message{Kind: KindExited, Incarnation: s.incarnation, Outcome: &o})}
}

// stopJob requests that the job stops after its step.
func (s *Supervisor) stopJob(signal int) []Action {
	if !s.joined {
		return s.leaveJob(ExitSignal+signal, fmt.Sprintf("process %d: stopped by a signal while it waited for process 0 at %s",
			s.number, s.rendezvous))
	}
	return []Action{s.sendJob(Message{Kind: KindStop, Signal: signal})}
}

// killJob ends the job at once.
func (s *Supervisor) killJob(signal int) []Action {
	if !s.joined {
		return s.leaveJob(ExitSignal+signal, "")
	}
	return append([]Action{s.sendJob(Message{Kind: KindKill, Signal: signal})}, s.leaveJob(ExitSignal+signal, "")...)
}

func (s *Supervisor) hasWorker() bool { return s.worker == workerForming || s.worker == workerRunning }

// hasUsableWorker reports whether the worker lives and is not given up.
func (s *Supervisor) hasUsableWorker() bool { return s.hasWorker() && s.wanted == 0 }

// leaveJob ends the supervisor. text is the message about it, "" for none.
func (s *Supervisor) leaveJob(code int, text string) []Action {
	s.left = true
	var out []Action
	if text != "" {
		out = append(out, Action{Do: DoPrint, Text: text})
	}
	if s.hasWorker() {
		out = append(out, Action{Do: DoKill})
	}
	return append(out, Action{Do: DoLeave, Code: code})
}
