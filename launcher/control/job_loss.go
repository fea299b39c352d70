package control

import (
	"fmt"
	"slices"

	eventlog "github.com/ecrec/ecrec/internal/event"
)

// endWorker handles the end of a process's worker.
func (j *Job) endWorker(process, incarnation int, o *Outcome) []Action {
	s := &j.Slots[process]
	if incarnation != s.Incarnation || s.Exited != nil || o == nil {
		return nil
	}
	if s.Done && o.hasCrashed() && (j.Elastic || j.Phase == phaseLeaving) {
		o = &Outcome{} // its work is done
	}
	if j.isReplaceable(s) && o.hasFailed() && !o.isConsequence() && j.Phase <= phaseRunning {
		return j.loseSupervisor(s.Supervisor, o.failureCause().onNewMachine())
	}
	s.Exited = o
	j.Order = append(j.Order, process)
	if o.hasCrashed() && !o.Culled && (!j.Elastic || j.Phase >= phaseLeaving) {
		j.addIncident(j.lossOf(process, o.deathCause()))
	}
	switch {
	case j.Phase == phaseLeaving || j.Phase == phaseEnding:
		if j.allExited() {
			return j.judgeJob()
		}
		return nil
	case !o.hasFailed():
		if j.Phase == phaseForming && j.Generation > 1 {
			return j.startGeneration(cause{"ended while it was needed again", eventlog.Exit}, process)
		}
		return j.maybeLeave()
	case j.Elastic && o.hasCrashed() && j.Phase != phaseMeeting:
		return j.startGeneration(o.deathCause(), process)
	case j.allExited(), j.Phase < phaseRunning && j.Generation == 1: // no worker has begun that would have to end
		return j.judgeJob()
	}
	return j.abortWorkers()
}

func (j *Job) allExited() bool {
	return !slices.ContainsFunc(j.Slots, func(s slot) bool { return !s.isGone() && s.Exited == nil })
}

// loseSupervisor handles the loss of a supervisor. It is fenced, in case it still lives.
func (j *Job) loseSupervisor(supervisor int, why cause) []Action {
	if supervisor >= len(j.Members) || j.IsLauncher(supervisor) || j.Members[supervisor].Lost || j.Phase == phaseOver {
		return nil
	}
	j.Members[supervisor].Lost = true
	out := []Action{{Do: DoFence, To: supervisor}}
	p, spare := j.processOf(supervisor), slices.Index(j.Spare, supervisor)
	switch {
	case j.Phase == phaseMeeting:
		return append(out, j.endJob(ExitFailed, j.supervisorName(supervisor)+" "+why.Text)...)
	case spare >= 0:
		j.Spare = slices.Delete(j.Spare, spare, spare+1)
		j.addIncident(Incident{Kind: IncidentLoss, Process: supervisor, Node: j.Members[supervisor].Node, Cause: why.Text, Code: why.Code})
		out = append(out, Action{Do: DoPrint, Text: fmt.Sprintf("%s%s %s; %s left", onNode(j.Members[supervisor].Node),
			j.supervisorName(supervisor), why.Text, countSpares(len(j.Spare)))})
	}
	if !slices.ContainsFunc(j.Members, func(m Member) bool { return !m.Lost && !j.IsLauncher(m.Number) }) {
		return append(out, j.endJob(ExitFailed, j.supervisorName(supervisor)+" "+why.Text+", as are all the others")...)
	}
	out = append(out, j.electVoters()...)
	if p != None {
		out = append(out, j.loseProcess(p, &Outcome{Why: why.Text, Cause: why.Code})...)
	}
	return append(out, j.noteNodeLoss(j.Members[supervisor].Node)...)
}

// loseProcess handles a process whose supervisor is lost.
func (j *Job) loseProcess(process int, o *Outcome) []Action {
	s := &j.Slots[process]
	if j.Elastic {
		s.Supervisor, s.New = None, false
	}
	return j.endWorker(process, s.Incarnation, o)
}

// isReplaceable reports whether a process's machine has done nothing for the job yet, and so
// may be unfit for it, while another supervisor lives.
func (j *Job) isReplaceable(s *slot) bool {
	return s.New && slices.ContainsFunc(j.Members, func(m Member) bool {
		return !m.Lost && !j.IsLauncher(m.Number) &&
			m.Number != s.Supervisor
	})
}

// noteNodeLoss warns that all of a node's supervisors are lost, if there were several and
// other nodes live.
func (j *Job) noteNodeLoss(node string) []Action {
	var numbers []int
	others := false
	for _, m := range j.Members {
		switch {
		case j.IsLauncher(m.Number):
		case m.Node != node:
			others = others || !m.Lost
		case !m.Lost:
			return nil
		default:
			numbers = append(numbers, m.Number)
		}
	}
	if node == "" || !others || len(numbers) < 2 || j.Phase == phaseOver {
		return nil
	}
	text := "all of its processes are lost (" + listOf("process", "processes", numbers) + ")"
	j.addIncident(Incident{Kind: IncidentWarning, Node: node, Cause: text, Code: eventlog.NodeGone})
	return []Action{{Do: DoPrint, Text: onNode(node) + text}}
}

// addIncident records an incident that happens now.
func (j *Job) addIncident(i Incident) { j.Incidents.addIncident(i, j.now) }

// lossOf is the incident of a lost process, before its ranks are reassigned.
func (j *Job) lossOf(process int, c cause) Incident {
	s := &j.Slots[process]
	ranks := s.Ranks
	if s.isGone() {
		ranks = j.ownRanks(process)
	}
	return Incident{Kind: IncidentLoss, Process: process, Ranks: slices.Clone(ranks), Node: s.Node, PID: s.PID, Cause: c.Text, Code: c.Code}
}

// addReplacement records the loss i of a process that has a new worker. before is the
// supervisor that it had.
func (j *Job) addReplacement(i Incident, before int) {
	i.Generation = j.Generation
	if s := &j.Slots[i.Process]; s.Supervisor != None {
		i.By = &Substitute{Process: i.Process, Node: j.Members[s.Supervisor].Node}
		if s.Supervisor != before {
			i.By.Process = s.Supervisor
		}
	}
	j.addIncident(i)
}
