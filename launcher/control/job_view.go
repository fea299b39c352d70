package control

import (
	"fmt"
	"slices"
)

// The methods here read the job and change nothing.

// IsMeeting reports whether the job waits for supervisors to join.
func (j *Job) IsMeeting() bool { return j.Phase == phaseMeeting }

// EndMessage is the message that ended the job; nil: it is not over.
func (j *Job) EndMessage() *Message { return j.End }

// PendingTimer is the timer that the leader runs.
func (j *Job) PendingTimer() Timer { return j.Timer }

// Roster is a copy of all members that have ever joined, lost ones too, by number.
func (j *Job) Roster() []Member { return slices.Clone(j.Members) }

// IsLost reports whether a member is lost.
func (j *Job) IsLost(number int) bool { return j.Members[number].Lost }

// Voters are the members that should vote, and the lost ones, which never will again.
func (j *Job) Voters() (wanted, lost []Member) {
	for _, n := range j.Voting {
		wanted = append(wanted, j.Members[n])
	}
	for _, m := range j.Members {
		if m.Lost {
			lost = append(lost, m)
		}
	}
	return wanted, lost
}

// IsVoter reports whether a member should vote.
func (j *Job) IsVoter(number int) bool { return slices.Contains(j.Voting, number) }

// Printer is the member that prints the job's messages: the launcher, or the first voter. The last message is printed by
// the member that led the job to its end: the others may end before they receive it.
func (j *Job) Printer() int {
	switch {
	case j.Launched || len(j.Voting) == 0:
		return j.Host()
	case j.End != nil:
		return j.EndedBy
	}
	return j.Voting[0]
}

// NumberOf is the number of the member with an ID; None: it is not a member.
func (j *Job) NumberOf(id string) int {
	return slices.IndexFunc(j.Members, func(m Member) bool { return m.ID == id })
}

// Missing names the supervisor that the job waits for to join, "" if there is none.
func (j *Job) Missing() string {
	if first, joined := j.firstMissing(); j.Phase == phaseMeeting && first != None {
		return fmt.Sprintf("%s (%d of %d have joined)", j.supervisorName(first), joined, j.Supervisors())
	}
	return ""
}

// firstMissing is the first supervisor that has not joined, None if all have, and the
// number of joined ones.
func (j *Job) firstMissing() (first, joined int) {
	first = None
	for _, m := range j.Members[:j.Supervisors()] {
		if m.Host != "" {
			joined++
		} else if first == None {
			first = m.Number
		}
	}
	return first, joined
}

// Closing is how the job has ended. code and why apply if this copy lacks the end.
func (j *Job) Closing(code int, why string) Closing {
	c := Closing{ID: j.id(), Code: code, Why: why, Incidents: slices.Clone(j.Incidents.List)}
	if e := j.End; e != nil {
		c.Code, c.Why, c.Stopped = e.Code, j.Verdict, e.Code > ExitSignal
		if e.Kind == KindKill {
			c.Code, c.Why, c.Stopped = ExitSignal+e.Signal, "ended at once by a second signal", false
		}
	}
	return c
}

// processName is a process with its ranks, for messages.
func (j *Job) processName(process int) string {
	ranks := j.Slots[process].Ranks
	if j.Slots[process].isGone() {
		ranks = j.ownRanks(process)
	}
	return fmt.Sprintf("process %d (%s)", process, listOf("rank", "ranks", ranks))
}

// nodeAndName is processName after the name of its node.
func (j *Job) nodeAndName(process int) string {
	return onNode(j.Slots[process].Node) + j.processName(process)
}

// supervisorName is processName for a supervisor that has not joined, waits as a spare or
// is lost.
func (j *Job) supervisorName(supervisor int) string {
	if p := j.processOf(supervisor); p != None {
		return j.processName(p)
	}
	if supervisor < j.Processes {
		return j.processName(supervisor)
	}
	if supervisor >= j.InitialMembers() {
		return fmt.Sprintf("process %d (a spare, started as process %d)", supervisor, j.Members[supervisor].Place)
	}
	return fmt.Sprintf("process %d (a spare)", supervisor)
}
