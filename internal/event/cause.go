package event

import "slices"

// Cause is the kind of a loss's cause: a word that programs can compare, unlike a text, which may
// change.
type Cause string

// The causes of losses, and of warnings about processes.
const (
	Signal         Cause = "signal"          // a signal ended the worker
	Exit           Cause = "exit"            // the worker ended without success
	Silent         Cause = "silent"          // the worker sent no heartbeat, or did not listen in time
	Unreachable    Cause = "unreachable"     // another process could not reach the worker
	SupervisorGone Cause = "supervisor_gone" // the connection to its supervisor ended
	NodeGone       Cause = "node_gone"       // all processes of its node are lost
	OtherCause     Cause = "other"           // a protocol error of its supervisor, or a cause of a later version
)

// Causes lists all causes.
var Causes = []Cause{Signal, Exit, Silent, Unreachable, SupervisorGone, NodeGone, OtherCause}

// Known returns c, or OtherCause if this version has no such cause.
func (c Cause) Known() Cause {
	if slices.Contains(Causes, c) {
		return c
	}
	return OtherCause
}
