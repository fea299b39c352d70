package control

import (
	"fmt"
	"slices"
	"time"

	eventlog "github.com/ecrec/ecrec/internal/event"
)

// expireTimer handles the end of the pending timer, given the last refusal of the rendezvous
// server, "" if there is none.
func (j *Job) expireTimer(refused string) []Action {
	switch j.Phase {
	case phaseMeeting:
		missing, joined := j.firstMissing()
		text := fmt.Sprintf("%s did not join within %v (%d of %d did); was it started? can it reach the rendezvous?",
			j.supervisorName(missing), j.limits.Meet.Round(time.Millisecond), joined, j.Supervisors())
		if refused != "" {
			text += " Last refused: " + refused
		}
		return j.endJob(ExitFailed, text)
	case phaseForming:
		var silent []int
		for p := range j.Slots {
			if s := &j.Slots[p]; !s.isGone() && !s.Listens {
				silent = append(silent, p)
			}
		}
		why := cause{fmt.Sprintf("did not listen within %v", j.limits.Reform), eventlog.Silent}
		if s := &j.Slots[silent[0]]; j.isReplaceable(s) {
			return j.loseSupervisor(s.Supervisor, why.onNewMachine())
		}
		if j.Generation > 1 {
			return j.startGeneration(why, silent...)
		}
		return j.endJob(ExitFailed, fmt.Sprintf("the worker of %s did not start within %v; is its machine overloaded?",
			j.processName(silent[0]), j.limits.Meet))
	case phaseRunning:
		return j.accuseUnreached()
	case phaseLeaving, phaseEnding:
		return j.judgeJob()
	}
	return nil
}

// requestStop handles the first signal that requests a stop.
func (j *Job) requestStop(signal int) []Action {
	if j.Signal != 0 {
		return nil
	}
	j.Signal = signal
	j.addIncident(Incident{Kind: IncidentStop, Cause: fmt.Sprintf("signal %d", signal), Code: eventlog.Signal})
	if j.Phase < phaseRunning && j.Generation == 1 {
		text := "stopped by a signal before the first step"
		if missing := j.Missing(); missing != "" {
			text += ", while it waited for " + missing
		}
		return j.endJob(ExitSignal+signal, text)
	}
	return j.broadcastStop()
}

// broadcastStop passes the signal on, if there was one: some workers may not have it.
func (j *Job) broadcastStop() []Action {
	if j.Signal == 0 {
		return nil
	}
	return []Action{{Do: DoBroadcast, Message: Message{Kind: KindStop, Signal: j.Signal}}}
}

// abortWorkers has the workers end after one failed, or because of Why. Each supervisor
// kills its worker after limits.End. The job waits no longer than twice that for silent
// supervisors.
func (j *Job) abortWorkers() []Action {
	j.Phase = phaseEnding
	return []Action{{Do: DoTimer, After: 2 * j.limits.End}, j.broadcastAbort()}
}

func (j *Job) broadcastAbort() Action {
	m := Message{Kind: KindAbort, Text: j.Why}
	if j.Why != "" { // rank 0's process prints it; if that is lost, the first that lives
		lives := func(s slot) bool { return !s.isGone() && s.Exited == nil }
		m.Process = slices.IndexFunc(j.Slots, func(s slot) bool { return lives(s) && slices.Contains(s.Ranks, 0) })
		if m.Process == None {
			m.Process = slices.IndexFunc(j.Slots, lives)
		}
	}
	return Action{Do: DoBroadcast, Message: m}
}

// judgeJob ends the job with the exit code and the message that follow from how its workers
// ended.
func (j *Job) judgeJob() []Action {
	if j.Why != "" {
		return j.endJob(ExitFailed, j.Why)
	}
	if p := j.findCulprit(); p != None {
		o := j.Slots[p].Exited
		return j.endJob(o.exitCode(), o.explain(j.nodeAndName(p)))
	}
	for _, p := range j.Order {
		if o := j.Slots[p].Exited; o.wasStopped() {
			return j.endJob(ExitSignal+j.Signal, o.Report.Error)
		}
	}
	return j.endJob(0, j.unfiredFaults())
}

// findCulprit is the process whose failure ended the job, None if none failed. It is the
// first that failed by itself. If there is none, it is one that fell silent, so that others
// lost it, and then the first that failed.
func (j *Job) findCulprit() int {
	best, how := None, 0
	for _, p := range j.Order {
		o, weight := j.Slots[p].Exited, 0
		switch {
		case !o.hasFailed():
		case !o.isConsequence():
			weight = 3
		case o.Culled:
			weight = 2
		default:
			weight = 1
		}
		if weight > how {
			best, how = p, weight
		}
	}
	if how == 0 || how == 3 {
		return best
	}
	for p := range j.Slots {
		if s := &j.Slots[p]; !s.isGone() && s.Exited == nil {
			s.Exited = &Outcome{Why: "is lost: neither its worker nor its supervisor answers"}
			return p
		}
	}
	return best
}

// endJob ends the job with an exit code. text is the message about it, "" for none.
func (j *Job) endJob(code int, text string) []Action {
	j.Verdict = text
	out := j.broadcastEnd(Message{Kind: KindEnd, Code: code})
	if text != "" {
		out = slices.Insert(out, 1, Action{Do: DoPrint, Text: text})
	}
	return out
}

// broadcastEnd ends the job with a message to all.
func (j *Job) broadcastEnd(m Message) []Action {
	j.Phase, j.End, j.EndedBy = phaseOver, &m, j.Leader
	return []Action{{Do: DoTimer}, {Do: DoBroadcast, Message: m}}
}
