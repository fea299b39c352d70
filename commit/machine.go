package commit

import "fmt"

// The protocol is three machines: an owner of rows, a holder of their parities, and the
// decision, which all ranks make alike. They are pure: an event goes in, actions come
// out, and nothing is waited for, sent or stored. Committer and Parity carry actions out.

// event is something that happened.
type event struct {
	kind eventKind
	step int64
	rank int // of word
}

type eventKind int

const (
	began    eventKind = iota // what is there is the commit of a step
	boundary                  // owner: an epoch ends with a step
	sealed                    // holder: senders have sealed the epoch up to a step
	staged                    // holder: all deltas of the epoch up to a step are here
	word                      // decision: a rank says up to which step it is prepared
	decided                   // all ranks are prepared up to a step
	rolled                    // the world has ended; some rank knows the commit of a step as the newest
)

// action is something to do about it.
type action struct {
	kind actionKind
	step int64
}

type actionKind int

const (
	meet   actionKind = iota // owner: have all ranks prepared up to a step, and decide that
	seal                     // owner: seal the epoch up to a step
	forget                   // owner: drop the pre-images of the epoch up to a step
	undo                     // owner: put rows back to what they were at a step, the last commit
	stage                    // holder: take in the deltas of the epoch up to a step
	fold                     // holder: add the deltas of the epoch up to a step to the parities
	drop                     // holder: forget the deltas of the epoch up to a step
	decide                   // decision: all ranks are prepared up to a step
)

var (
	eventNames  = [...]string{"began", "boundary", "sealed", "staged", "word", "decided", "rolled"}
	actionNames = [...]string{"meet", "seal", "forget", "undo", "stage", "fold", "drop", "decide"}
)

func (e event) String() string {
	if e.kind == word {
		return fmt.Sprintf("word of %d %d", e.rank, e.step)
	}
	return fmt.Sprintf("%s %d", eventNames[e.kind], e.step)
}

func (a action) String() string { return fmt.Sprintf("%s %d", actionNames[a.kind], a.step) }

// unexpected is for events that no caller that keeps the protocol brings about.
func unexpected(machine any, e event) string { return fmt.Sprintf("commit: %v at %+v", e, machine) }
