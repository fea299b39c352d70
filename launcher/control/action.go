package control

import (
	"fmt"
	"time"
)

// Verb is the kind of an Action.
type Verb string

// The verbs, with the fields of Action that they use.
const (
	DoSend       Verb = "send"       // Message to the supervisor To
	DoBroadcast  Verb = "broadcast"  // Message to every supervisor
	DoSendJob    Verb = "sendJob"    // Message to the job
	DoSendWorker Verb = "sendWorker" // Message to the worker
	DoStart      Verb = "start"      // start a worker for Message's process, generation and incarnation
	DoKill       Verb = "kill"       // kill the worker, if it lives
	DoPause      Verb = "pause"      // suspend the worker for After
	DoDie        Verb = "die"        // kill this process at once
	DoTimer      Verb = "timer"      // an expire event after After, replacing the timer set before; 0: none
	DoVote       Verb = "vote"       // the set of voters has changed
	DoFence      Verb = "fence"      // end the supervisor To if it still lives: its place is given away
	DoAwait      Verb = "await"      // the supervisor To is lost unless it connects in time
	DoPrint      Verb = "print"      // Text for people
	DoLeave      Verb = "leave"      // end this supervisor with Code
)

// Action is a request of a state machine to its runtime. The runtime performs actions in order.
type Action struct {
	Do      Verb
	To      int
	Message Message
	After   time.Duration
	Text    string
	Code    int
}

// String is for tests and logs.
func (a Action) String() string {
	switch a.Do {
	case DoSend:
		return fmt.Sprintf("send %d %s", a.To, a.Message)
	case DoFence, DoAwait:
		return fmt.Sprintf("%s %d", a.Do, a.To)
	case DoBroadcast, DoSendJob, DoSendWorker:
		return fmt.Sprintf("%s %s", a.Do, a.Message)
	case DoStart:
		return fmt.Sprintf("start incarnation %d for generation %d", a.Message.Incarnation, a.Message.Generation)
	case DoTimer, DoPause:
		return fmt.Sprintf("%s %v", a.Do, a.After)
	case DoPrint:
		return "print " + a.Text
	case DoLeave:
		return fmt.Sprintf("leave %d", a.Code)
	}
	return string(a.Do)
}
