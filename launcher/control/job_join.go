package control

import (
	"errors"
	"fmt"
	"slices"
)

// CheckJoin returns nil if a supervisor may join the running job: in a place whose own
// supervisor is lost.
func (j *Job) CheckJoin(m Member) error {
	lives := slices.ContainsFunc(j.Members, func(o Member) bool { return o.Place == m.Place && !o.Lost && o.ID != m.ID })
	switch {
	case m.Place < 0 || m.Place >= j.Supervisors() || m.ID == "":
		return errors.New("it has no place in this job")
	case lives:
		return fmt.Errorf("process %d has joined already; two processes were started with this number", m.Place)
	case !j.Elastic || j.Phase >= phaseLeaving:
		return fmt.Errorf("process %d joins too late: the job accepts no more processes", m.Place)
	case len(j.Members) >= maxMembers:
		return fmt.Errorf("process %d joins after %d others, the most that a job accepts; restart the job with --resume auto",
			m.Place, len(j.Members))
	}
	return nil
}

// addLateMember handles a supervisor that joins the running job. It gets an unused number
// and is a spare, or takes over a process whose ranks were reassigned.
func (j *Job) addLateMember(m Member) []Action {
	if j.CheckJoin(m) != nil || j.NumberOf(m.ID) != None {
		return nil
	}
	m.Number, m.Lost = len(j.Members), false
	j.Members, j.Spare = append(j.Members, m), append(j.Spare, m.Number)
	j.addIncident(Incident{Kind: IncidentJoin, Process: m.Number, Node: m.Node})
	out := []Action{{Do: DoAwait, To: m.Number},
		{Do: DoPrint, Text: fmt.Sprintf("%sprocess %d, started as process %d, joined as a spare (%s)", onNode(m.Node), m.Number,
			m.Place, countSpares(len(j.Spare)))}}
	return append(append(out, j.electVoters()...), j.maybeRebalance()...)
}

// maybeRebalance has a spare take over a process whose ranks were reassigned. The ranks are
// lost once more and rebuilt, so it waits until the job is fully redundant: then it can lose
// no more than before. It does not count as a loss.
func (j *Job) maybeRebalance() []Action {
	p := slices.IndexFunc(j.Slots, func(s slot) bool { return s.isGone() })
	leaves := func(s slot) bool { return s.isFinished() && !s.isGone() || s.Reported }
	if p < 0 || len(j.Spare) == 0 || !j.FullyRedundant || j.Phase != phaseRunning || j.Signal != 0 || slices.ContainsFunc(j.Slots, leaves) {
		return nil
	}
	j.Generation++
	j.LostAt = j.now
	s := &j.Slots[p]
	by := j.assignSpare(p)
	s.Exited = nil
	s.Incarnation++
	for _, r := range j.ownRanks(p) {
		for q := range j.Slots {
			j.Slots[q].removeRank(r)
		}
		s.addRank(r, j.Generation)
	}
	j.addIncident(Incident{Kind: IncidentReturn, Process: p, Ranks: j.ownRanks(p), Generation: j.Generation,
		By: &Substitute{Process: s.Supervisor, Node: j.Members[s.Supervisor].Node}})
	text := fmt.Sprintf("%s takes over %s, whose ranks had been reassigned; all processes reconnect (generation %d)", by,
		j.processName(p), j.Generation)
	return append([]Action{{Do: DoPrint, Text: text}}, j.formGeneration(j.limits.Reform)...)
}
