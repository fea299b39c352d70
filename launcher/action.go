package launcher

import (
	"encoding/json"
	"fmt"
	"time"
)

// verb is what a state machine wants done.
type verb string

const (
	doTell       verb = "tell"       // process To: Message
	doTellAll    verb = "tellAll"    // every process: Message
	doTellJob    verb = "tellJob"    // the job: Message
	doTellWorker verb = "tellWorker" // the worker: Message
	doStart      verb = "start"      // a worker, and tell it Message
	doKill       verb = "kill"       // the worker, if it is there
	doPause      verb = "pause"      // the worker stands still for After
	doDie        verb = "die"        // this process, at once
	doTimer      verb = "timer"      // an event after After, in place of one asked for before
	doVote       verb = "vote"       // the voters have changed
	doExpel      verb = "expel"      // the supervisor To, if it lives yet: its place is given away
	doExpect     verb = "expect"     // the supervisor To: it is lost if it does not come
	doSay        verb = "say"        // Text to the person
	doLeave      verb = "leave"      // end this supervisor with Code
)

// action is what a state machine wants done, in order.
type action struct {
	Do      verb
	To      int
	Message message
	After   time.Duration
	Text    string
	Code    int
}

// String is for tests and logs.
func (a action) String() string {
	switch a.Do {
	case doTell:
		return fmt.Sprintf("tell %d %s", a.To, a.Message)
	case doExpel, doExpect:
		return fmt.Sprintf("%s %d", a.Do, a.To)
	case doTellAll, doTellJob, doTellWorker:
		return fmt.Sprintf("%s %s", a.Do, a.Message)
	case doStart:
		return fmt.Sprintf("start incarnation %d for generation %d", a.Message.Incarnation, a.Message.Generation)
	case doTimer, doPause:
		return fmt.Sprintf("%s %v", a.Do, a.After)
	case doSay:
		return "say " + a.Text
	case doLeave:
		return fmt.Sprintf("leave %d", a.Code)
	}
	return string(a.Do)
}

// String is the kind and what else is set.
func (m message) String() string {
	k := m.Kind
	m.Kind = ""
	rest, err := json.Marshal(m)
	if err != nil {
		panic(err) // every field can be written
	}
	if text := string(rest); text != `{"kind":""}` {
		return fmt.Sprintf("%s %s", k, "{"+text[len(`{"kind":"",`):])
	}
	return string(k)
}
