package control

import (
	"slices"
	"strings"
)

// grantFault replies to a worker's request for a fault. Each fault is granted once.
func (j *Job) grantFault(supervisor int, m Message) []Action {
	if m.Fault == nil {
		return nil
	}
	ask := firing{m.Fault.Number, supervisor, m.Incarnation}
	at := slices.IndexFunc(j.Fired, func(f firing) bool { return f.Fault == ask.Fault })
	if at < 0 {
		at, j.Fired = len(j.Fired), append(j.Fired, ask)
		if m.Fault.Do != FaultStop {
			j.FaultAt = j.now
		}
	}
	granted := j.Fired[at] == ask
	return []Action{{Do: DoSend, To: supervisor, Message: Message{Kind: KindFired, Fault: m.Fault,
		Incarnation: m.Incarnation, Granted: granted}}}
}

// unfiredFaults is a warning that names the faults that have not fired, "" if all have.
func (j *Job) unfiredFaults() string {
	var names []string
	for n, name := range j.Faults {
		if !slices.ContainsFunc(j.Fired, func(f firing) bool { return f.Fault == n }) {
			names = append(names, name)
		}
	}
	if names == nil {
		return ""
	}
	return "warning: " + strings.Join(names, ", ") + " did not fire: the rank did not reach that point of that step, or of a later one"
}
