package control

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Step applies the next event and returns the actions that follow. They are a function of
// the events and their order.
func (j *Job) Step(e Event) (out []Action) {
	j.Leader, j.now = e.By, e.At
	switch e.Kind {
	case EventStart:
		out = []Action{{Do: DoTimer, After: j.limits.Meet}}
	case EventJoin:
		out = j.addMember(*e.Member)
	case EventReceive:
		out = j.receive(e.From, *e.Message)
	case EventLose:
		out = j.loseSupervisor(e.From, isGone)
	case EventExpire:
		if e.Timer == j.Timer.Number {
			out = j.expireTimer(e.Text)
		}
	default:
		panic(fmt.Sprintf("launcher: a job has no event %q", e.Kind))
	}
	for _, a := range out {
		if a.Do == DoTimer {
			j.Timer = Timer{j.Timer.Number + 1, a.After}
		}
	}
	return out
}

// Resume returns the actions of a new leader: it repeats messages that only some processes may
// have received. A repeated message changes nothing, and supervisors repeat their own
// messages to the new leader (EventLed).
func (j *Job) Resume() []Action {
	out := j.broadcastVoters()
	switch j.Phase {
	case phaseForming:
		for p := range j.Slots {
			if s := &j.Slots[p]; !s.isGone() && !s.Listens {
				out = append(out, j.sendForm(p))
			}
		}
		out = append(out, j.broadcastStop()...)
	case phaseRunning:
		out = append(out, j.broadcastMembership()...)
	case phaseLeaving:
		out = append(out, Action{Do: DoBroadcast, Message: Message{Kind: KindLeave}})
	case phaseEnding:
		out = append(out, j.broadcastAbort())
	case phaseOver:
		out = append(out, Action{Do: DoBroadcast, Message: *j.End})
	}
	return out
}

// Snapshot is the job's state as text, for Restore.
func (j *Job) Snapshot() []byte {
	text, err := json.Marshal(j.state)
	if err != nil {
		panic(err) // every field can be encoded
	}
	return text
}

// Restore replaces the job's state by that of a snapshot.
func (j *Job) Restore(text []byte) error {
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("a copy of the job's state: %w", err)
	}
	j.state = s
	return nil
}

// electVoters chooses the voters again, after a change of the members.
func (j *Job) electVoters() []Action {
	if !j.Elastic {
		return nil
	}
	fixed := None
	if j.Launched {
		fixed = j.Host() // the job does not outlive it
	}
	voters := chooseVoters(j.Members, j.Leader, fixed)
	if slices.Equal(voters, j.Voting) {
		return nil
	}
	j.Voting = voters
	return append([]Action{{Do: DoVote}}, j.broadcastVoters()...)
}

func (j *Job) broadcastVoters() []Action {
	if len(j.Voting) == 0 {
		return nil
	}
	voters, _ := j.Voters()
	return []Action{{Do: DoBroadcast, Message: Message{Kind: KindVoters, Voters: voters}}}
}
