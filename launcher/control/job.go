package control

import (
	"fmt"
	"slices"
	"time"

	eventlog "github.com/ecrec/ecrec/internal/event"
)

// Job is the state machine of everything that concerns all processes. Each voter has a copy,
// which takes the same events in the same order; the leader does the actions.
//
// Invariant: the generation grows whenever a worker may have lost state since the membership
// was sent. A message of an older generation, or of an older incarnation of a worker,
// changes nothing.
type Job struct {
	Shape
	limits Limits
	now    int64 // of the newest event
	state
}

// NewJob is a job before its first event.
func NewJob(s Shape, limits Limits) *Job {
	j := &Job{Shape: s, limits: limits, state: state{Generation: 1, Slots: make([]slot, s.Processes),
		Members: make([]Member, s.InitialMembers())}}
	for p := range j.Slots {
		j.Slots[p] = slot{Process: Process{Incarnation: 1}, Supervisor: p}
	}
	for n := range j.Members {
		j.Members[n].Number, j.Members[n].Place = n, n
	}
	j.dealRanks()
	for s := j.Processes; s < j.Supervisors(); s++ {
		j.Spare = append(j.Spare, s)
	}
	return j
}

// addMember handles a member that has joined.
func (j *Job) addMember(m Member) []Action {
	if j.Phase != phaseMeeting {
		return j.addLateMember(m)
	}
	if m.Number >= len(j.Members) {
		return nil
	}
	m.Place = m.Number
	j.Members[m.Number] = m
	if slices.ContainsFunc(j.Members, func(m Member) bool { return m.Host == "" }) {
		return nil
	}
	j.dealRanks()
	return append(j.electVoters(), j.formGeneration(j.limits.Meet)...)
}

// dealRanks gives each process the ranks that it begins with.
func (j *Job) dealRanks() {
	var hosts []string
	for p := range j.Slots {
		hosts = append(hosts, j.Members[j.Slots[p].Supervisor].Host)
	}
	for turn, p := range turns(hosts) {
		s := &j.Slots[p]
		s.Turn, s.Ranks, s.Since = turn, nil, nil
		for _, r := range j.ownRanks(p) {
			s.addRank(r, j.Generation)
		}
	}
}

// ownRanks are the ranks that a process began with.
func (j *Job) ownRanks(process int) []int {
	return ranksOf(j.Slots[process].Turn, j.Processes, j.Ranks)
}

// processOf is the process of a supervisor; None if it has none.
func (j *Job) processOf(supervisor int) int {
	return slices.IndexFunc(j.Slots, func(s slot) bool { return s.Supervisor == supervisor })
}

// receive handles a message of a supervisor.
func (j *Job) receive(supervisor int, m Message) []Action {
	p := j.processOf(supervisor)
	switch {
	case j.Phase == phaseOver:
		return nil
	case m.Kind == KindHeartbeat:
		return nil // its arrival is enough
	case m.Kind == KindStop:
		return j.requestStop(m.Signal)
	case m.Kind == KindKill:
		return j.broadcastEnd(Message{Kind: KindKill, Signal: m.Signal})
	case p == None:
		return nil // it has lost its process
	case m.Kind == KindExited:
		return j.endWorker(p, m.Incarnation, m.Outcome)
	case m.Kind == KindFire:
		return j.grantFault(supervisor, m)
	case m.Generation != j.Generation && (m.Kind == KindListening || m.Kind == KindDone || m.Kind == KindUnreachable ||
		m.Kind == KindCommitted):
		return nil
	}
	switch m.Kind {
	case KindListening:
		return j.addListener(p, m.Addr, m.PID)
	case KindDone:
		return j.finishWork(p)
	case KindUnreachable:
		return j.reportUnreachable(p, m.Process)
	case KindCommitted:
		return j.acceptCommit(m.FullyRedundant)
	}
	return j.loseSupervisor(supervisor, cause{fmt.Sprintf("is lost: its supervisor sent an unexpected message, %q", m.Kind),
		eventlog.OtherCause})
}

// formGeneration requests, from the supervisor of each process, a worker that listens for the
// generation.
func (j *Job) formGeneration(limit time.Duration) []Action {
	j.Phase, j.FullyRedundant = phaseForming, false
	out := []Action{{Do: DoTimer, After: limit}}
	for p := range j.Slots {
		s := &j.Slots[p]
		s.Addr, s.Listens, s.Done, s.Reported = "", false, false, false
		if s.isGone() {
			continue
		}
		s.Host, s.Node = j.Members[s.Supervisor].Host, j.Members[s.Supervisor].Node
		out = append(out, j.sendForm(p))
	}
	return out
}

func (j *Job) sendForm(process int) Action {
	s := &j.Slots[process]
	return Action{Do: DoSend, To: s.Supervisor,
		Message: Message{Kind: KindForm, Process: process, Generation: j.Generation, Incarnation: s.Incarnation}}
}

// addListener handles a worker that listens. When all do, the generation runs.
func (j *Job) addListener(process int, addr string, pid int) []Action {
	s := &j.Slots[process]
	if j.Phase != phaseForming || s.Listens || s.Exited != nil {
		return nil
	}
	s.Addr, s.Listens, s.PID = addr, true, pid
	j.Incidents.setPID(process, pid)
	for p := range j.Slots {
		if s := &j.Slots[p]; !s.isGone() && !s.Listens {
			return nil
		}
	}
	j.Phase = phaseRunning
	return append([]Action{{Do: DoTimer}}, j.broadcastMembership()...)
}

// broadcastMembership sends the membership that has formed to all.
func (j *Job) broadcastMembership() []Action {
	m := &Membership{JobID: j.id(), Generation: j.Generation, LostAt: j.LostAt, Trained: j.Trained, Doubts: j.Doubts, Spares: len(j.Spare),
		Incidents: slices.Clone(j.Incidents.List)}
	for _, f := range j.Fired {
		m.Fired = append(m.Fired, f.Fault)
	}
	for p := range j.Slots {
		s := j.Slots[p].Process
		s.Ranks, s.Since = slices.Clone(s.Ranks), slices.Clone(s.Since)
		m.Processes = append(m.Processes, s)
	}
	return append([]Action{{Do: DoBroadcast, Message: Message{Kind: KindWorld, Membership: m}}}, j.broadcastStop()...)
}

// finishWork handles a process whose worker has done its work.
func (j *Job) finishWork(process int) []Action {
	if j.Phase != phaseRunning {
		return nil
	}
	j.Slots[process].Done = true
	return j.maybeLeave()
}

// maybeLeave lets the workers end once all have done their work.
func (j *Job) maybeLeave() []Action {
	for p := range j.Slots {
		if !j.Slots[p].isFinished() {
			return nil
		}
	}
	if j.allExited() {
		return j.judgeJob()
	}
	j.Phase = phaseLeaving
	return []Action{{Do: DoTimer, After: j.limits.End}, {Do: DoBroadcast, Message: Message{Kind: KindLeave}}}
}

// acceptCommit handles a commit: the count of losses before it starts again. fullyRedundant
// means that everything lost has been rebuilt.
func (j *Job) acceptCommit(fullyRedundant bool) []Action {
	j.Restarts, j.Doubts, j.Trained = 0, 0, true
	for p := range j.Slots {
		j.Slots[p].Accused, j.Slots[p].New = false, false
	}
	j.FullyRedundant = j.FullyRedundant || fullyRedundant
	return j.maybeRebalance()
}

// id distinguishes this job from all others. It is the random ID of the member where the job began.
func (j *Job) id() string { return j.Members[j.Host()].ID }
