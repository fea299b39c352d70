package launcher

import (
	"slices"
	"strings"
)

// firing is a fault that was granted, and to whom: should the answer be lost, that one
// may ask again.
type firing struct{ Fault, Supervisor, Incarnation int }

// fire lets a fault happen once.
func (j *job) fire(supervisor int, m message) []action {
	if m.Fault == nil {
		return nil
	}
	ask := firing{m.Fault.Number, supervisor, m.Incarnation}
	at := slices.IndexFunc(j.Fired, func(f firing) bool { return f.Fault == ask.Fault })
	if at < 0 {
		at, j.Fired = len(j.Fired), append(j.Fired, ask)
		if m.Fault.Do != FaultStop {
			j.Struck = j.now
		}
	}
	granted := j.Fired[at] == ask
	return []action{{Do: doTell, To: supervisor, Message: message{Kind: kindFired, Fault: m.Fault, Incarnation: m.Incarnation, Granted: granted}}}
}

// unfired says which faults have not happened, "" if all have.
func (j *job) unfired() string {
	var names []string
	for n, name := range j.faults {
		if !slices.ContainsFunc(j.Fired, func(f firing) bool { return f.Fault == n }) {
			names = append(names, name)
		}
	}
	if names == nil {
		return ""
	}
	return "warning: " + strings.Join(names, ", ") + " did not happen: the rank did not come to that point of that step, or of a later one"
}
