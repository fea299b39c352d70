package control

// EventKind is the kind of an Event.
type EventKind string

// The events of a Job. They are entries of the replicated log.
const (
	EventStart  EventKind = "start"  // the rendezvous is open
	EventJoin   EventKind = "join"   // Member has joined
	EventLose   EventKind = "lose"   // the supervisor From is lost
	EventExpire EventKind = "expire" // the timer numbered Timer has ended; Text: the rendezvous server's last refusal. Also of a Supervisor
	// EventReceive is a Message, from the supervisor From to a Job, or from the job to a Supervisor.
	EventReceive EventKind = "receive"
)

// The events of a Supervisor, besides EventReceive and EventExpire.
const (
	EventLed          EventKind = "led"           // a leader was elected, and receives this supervisor's messages from now on
	EventLeaderless   EventKind = "leaderless"    // there will be no leader any more, because of Text
	EventWorker       EventKind = "worker"        // the worker sent Message
	EventWorkerSilent EventKind = "worker-silent" // the worker missed its heartbeats
	EventWorkerExited EventKind = "worker-exited" // Outcome
	EventSignal       EventKind = "signal"        // this process received Signal: the first stops the job, the second kills it
	EventStop         EventKind = "stop"          // the launcher requests a stop of the job, for Signal, possibly more than once
	EventKill         EventKind = "kill"          // the launcher ends the job at once, for Signal
)

// Event is an input of a state machine.
type Event struct {
	Kind    EventKind `json:"kind"`
	By      int       `json:"by,omitempty"` // the leader that proposed it
	At      int64     `json:"at,omitempty"` // when, by the leader's clock, in nanoseconds of Unix time
	From    int       `json:"from,omitempty"`
	Member  *Member   `json:"member,omitempty"`
	Message *Message  `json:"message,omitempty"`
	Outcome *Outcome  `json:"outcome,omitempty"`
	Timer   int       `json:"timer,omitempty"`
	Signal  int       `json:"signal,omitempty"`
	Text    string    `json:"text,omitempty"`
}
