package commit

import "fmt"

// The protocol is three state machines: an owner of rows, a holder of their parities, and
// the decision, which is the same on all ranks. They are pure: an event is an input, actions
// are the output, and they neither wait nor send nor store. Committer and Parity carry the
// actions out.

// event is an input of a machine.
type event struct {
	kind eventKind
	step int64
	rank int // of status
}

type eventKind int

const (
	began    eventKind = iota // the present state is the commit of a step
	boundary                  // owner: an epoch ends with a step
	sealed                    // holder: senders have sealed the epoch up to a step
	staged                    // holder: all deltas of the epoch up to a step are received
	status                    // decision: a rank is prepared up to a step
	decided                   // all ranks are prepared up to a step
	rolled                    // the world has ended; the newest commit of any rank is that of a step
)

// action is an output of a machine.
type action struct {
	kind actionKind
	step int64
}

type actionKind int

const (
	meet   actionKind = iota // owner: wait until all ranks are prepared up to a step, and decide that
	seal                     // owner: seal the epoch up to a step
	forget                   // owner: drop the pre-images of the epoch up to a step
	undo                     // owner: roll rows back to a step, the last commit
	stage                    // holder: receive the deltas of the epoch up to a step
	fold                     // holder: add the deltas of the epoch up to a step to the parities
	drop                     // holder: drop the deltas of the epoch up to a step
	decide                   // decision: all ranks are prepared up to a step
)

var (
	eventNames  = [...]string{"began", "boundary", "sealed", "staged", "status", "decided", "rolled"}
	actionNames = [...]string{"meet", "seal", "forget", "undo", "stage", "fold", "drop", "decide"}
)

func (e event) String() string {
	if e.kind == status {
		return fmt.Sprintf("status of %d %d", e.rank, e.step)
	}
	return fmt.Sprintf("%s %d", eventNames[e.kind], e.step)
}

func (a action) String() string { return fmt.Sprintf("%s %d", actionNames[a.kind], a.step) }

// unexpected is the message of a panic: a caller broke the protocol.
func unexpected(machine any, e event) string { return fmt.Sprintf("commit: %v at %+v", e, machine) }
