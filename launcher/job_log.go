package launcher

import (
	"encoding/json"
	"fmt"
	"slices"
)

// eventKind is what an event is.
type eventKind string

// The events of a job: what its methods of these names take.
const (
	eventStart  eventKind = "start"
	eventJoin   eventKind = "join"   // Keeper
	eventHear   eventKind = "hear"   // From: Message
	eventLose   eventKind = "lose"   // From
	eventExpire eventKind = "expire" // Timer, with Text
)

// event is an entry of the log that a job's copies take.
type event struct {
	Kind    eventKind `json:"kind"`
	By      int       `json:"by,omitempty"` // the keeper that led and told of it
	At      int64     `json:"at,omitempty"` // when, by that one's clock: nanoseconds of Unix time
	From    int       `json:"from,omitempty"`
	Keeper  *keeper   `json:"keeper,omitempty"`
	Message *message  `json:"message,omitempty"`
	Timer   int       `json:"timer,omitempty"`
	Text    string    `json:"text,omitempty"`
}

// apply takes the next event. What follows is a function of the events and their order.
func (j *job) apply(e event) (out []action) {
	j.Leader, j.now = e.By, e.At
	switch e.Kind {
	case eventStart:
		out = j.start()
	case eventJoin:
		out = j.join(*e.Keeper)
	case eventHear:
		out = j.hear(e.From, *e.Message)
	case eventLose:
		out = j.lose(e.From, isGone)
	case eventExpire:
		if e.Timer == j.Timer.Number {
			out = j.expire(e.Text)
		}
	default:
		panic(fmt.Sprintf("launcher: no event %q", e.Kind))
	}
	for _, a := range out {
		if a.Do == doTimer {
			j.Timer = timer{j.Timer.Number + 1, a.After}
		}
	}
	return out
}

// resume repeats what the job may have told some only: for a leader that is new. Those
// who know it already change nothing, and themselves repeat what they have said since
// (member.lead).
func (j *job) resume() []action {
	out := j.tellVoters()
	switch j.Phase {
	case jobForming:
		for p := range j.Seats {
			if s := &j.Seats[p]; !s.gone() && !s.Listens {
				out = append(out, j.tellForm(p))
			}
		}
		out = append(out, j.tellStop()...)
	case jobRunning:
		out = append(out, j.tellWorld()...)
	case jobLeaving:
		out = append(out, action{Do: doTellAll, Message: message{Kind: kindLeave}})
	case jobEnding:
		out = append(out, j.tellAbort())
	case jobOver:
		out = append(out, action{Do: doTellAll, Message: *j.End})
	}
	return out
}

// maxVoters bounds who agrees on the log.
const maxVoters = 5

// elect chooses who votes: the first that live, an odd number, since one more could not
// spare one more; but always who leads, and the launcher, as nothing outlives it.
func (j *job) elect() []action {
	if !j.elastic {
		return nil
	}
	var living []int
	for n := range j.Keepers {
		switch {
		case j.Keepers[n].Lost:
		case n == j.Leader:
			living = slices.Insert(living, 0, n)
		default:
			living = append(living, n)
		}
	}
	if j.launched {
		living = slices.DeleteFunc(living, func(n int) bool { return n == j.host() })
		living = slices.Insert(living, 0, j.host())
	}
	voters := living[:min(maxVoters, (len(living)+1)/2*2-1)]
	slices.Sort(voters)
	if slices.Equal(voters, j.Voters) {
		return nil
	}
	j.Voters = voters
	return append([]action{{Do: doVote}}, j.tellVoters()...)
}

func (j *job) tellVoters() []action {
	if len(j.Voters) == 0 {
		return nil
	}
	voters, _ := j.voters()
	return []action{{Do: doTellAll, Message: message{Kind: kindVoters, Voters: voters}}}
}

// voters are those who are to vote, and those who never will again.
func (j *job) voters() (wanted, lost []keeper) {
	for _, n := range j.Voters {
		wanted = append(wanted, j.Keepers[n])
	}
	for _, k := range j.Keepers {
		if k.Lost {
			lost = append(lost, k)
		}
	}
	return wanted, lost
}

// speaker is the keeper that says what there is to say: the launcher, or the first that
// votes.
func (j *job) speaker() int {
	if j.launched || len(j.Voters) == 0 {
		return j.host()
	}
	return j.Voters[0]
}

// snapshot is the state as text; restore takes it.
func (j *job) snapshot() []byte {
	text, err := json.Marshal(j.state)
	if err != nil {
		panic(err) // every field can be written
	}
	return text
}

func (j *job) restore(text []byte) error {
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("a copy of the job's state: %w", err)
	}
	j.state = s
	return nil
}
