package launcher

import "fmt"

// workerPhase is how far a supervisor's worker has come.
type workerPhase int

const (
	workerNone workerPhase = iota
	workerStarting
	workerRunning // it knows the world
	workerEnded
)

// member is the state machine of one supervisor.
//
// Invariant: it tells the job of its worker's end once in a generation, and leaves
// no worker behind: doLeave comes after doKill wherever a worker may live.
type member struct {
	process int
	limits  limits

	met        bool // the job hears us
	generation uint64
	worker     workerPhase
	report     *Report
	aborted    bool // our worker is to end because another failed
	killed     bool // we killed it
	signalled  bool // this process got a signal
	left       bool
}

// meet says that the job hears us now.
func (s *member) meet() { s.met = true }

// hear takes what the job says.
func (s *member) hear(m message) []action {
	if s.left {
		return nil
	}
	switch m.Kind {
	case kindForm:
		s.generation, s.worker, s.report = m.Generation, workerStarting, nil
		return []action{{Do: doStart}}
	case kindWorld:
		if s.worker != workerStarting {
			return nil // it ended; the job hears so
		}
		s.worker = workerRunning
		return []action{{Do: doTellWorker, Message: m}}
	case kindStop:
		if s.worker == workerRunning {
			return []action{{Do: doTellWorker, Message: m}}
		}
	case kindAbort:
		if s.alive() {
			s.aborted = true
			return []action{{Do: doTimer, After: s.limits.end}}
		}
	case kindKill:
		return s.leave(exitSignal+m.Signal, "")
	case kindEnd:
		return s.leave(m.Code, "")
	}
	return nil
}

// hearWorker takes what our worker says.
func (s *member) hearWorker(m message) []action {
	switch {
	case m.Kind == kindListening && s.worker == workerStarting:
		return []action{{Do: doTellJob, Message: message{Kind: kindListening, Addr: m.Addr, Generation: s.generation}}}
	case m.Kind == kindReport && s.report == nil:
		s.report = m.Report
	}
	return nil
}

// workerGone takes our worker's end.
func (s *member) workerGone(o outcome) []action {
	if s.left || !s.alive() {
		return nil
	}
	s.worker = workerEnded
	o.Report, o.Culled = s.report, s.killed
	return []action{{Do: doTimer}, {Do: doTellJob, Message: message{Kind: kindEnded, Outcome: &o}}}
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
	return []action{{Do: doTellJob, Message: message{Kind: kindStop, Signal: signal}}}
}

// askKill ends the job at once.
func (s *member) askKill(signal int) []action {
	if s.left {
		return nil
	}
	if !s.met {
		return s.leave(exitSignal+signal, "")
	}
	out := []action{{Do: doTellJob, Message: message{Kind: kindKill, Signal: signal}}}
	return append(out, s.leave(exitSignal+signal, "")...)
}

// signal is a signal to this process: the first asks, the second insists.
func (s *member) signal(number int) []action {
	if s.signalled {
		return s.askKill(number)
	}
	s.signalled = true
	return s.askStop(number)
}

// loseJob says that the connection to process 0 is gone.
func (s *member) loseJob() []action {
	if s.left {
		return nil
	}
	return s.leave(exitFailed, fmt.Sprintf("process %d ends: process 0 is lost: its supervisor is gone", s.process))
}

func (s *member) alive() bool { return s.worker == workerStarting || s.worker == workerRunning }

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
