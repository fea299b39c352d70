package control

import (
	"encoding/json"
	"fmt"
	"time"
)

// Kind is the kind of a Message.
type Kind string

// The kinds of messages, with sender, receiver and fields.
const (
	KindNonce   Kind = "nonce"   // both ends of a handshake, first: Nonce
	KindJoin    Kind = "join"    // supervisor to host, or to a voter of a running job: Processes, Job, Member
	KindVisit   Kind = "visit"   // supervisor to voter: opens a link for Process, the supervisor's number
	KindRaft    Kind = "raft"    // voter to voter: the connection carries the consensus library's bytes from here on
	KindWelcome Kind = "welcome" // reply to these three: Secret, if the kernel authenticates peers; to join: the host's number, Process,
	// or, from a running job, Voters and the assigned number, Process: -1 if another voter leads
	KindAck     Kind = "ack"     // reply to welcome
	KindRefused Kind = "refused" // reply to these three: Text is the reason; supervisor to launcher: why it does not join

	KindLead   Kind = "lead"   // voter to supervisor, once a heartbeat: it leads in Term
	KindFollow Kind = "follow" // voter to supervisor: it no longer leads
	KindVoters Kind = "voters" // job to supervisor: Voters

	KindForm      Kind = "form"      // job to supervisor: have a worker of Incarnation of Process listen for Generation
	KindStandby   Kind = "standby"   // supervisor to worker: prepare for a job of Processes, and wait for listen
	KindListen    Kind = "listen"    // supervisor to worker, as Process: listen on Host, for Generation; Heartbeat
	KindListening Kind = "listening" // worker to supervisor to job: listens at Addr, for Generation; PID is its process id
	KindWorld     Kind = "world"     // job to supervisor to worker: Membership
	KindDone      Kind = "done"      // worker to supervisor to job: the work of Generation is done
	KindLeave     Kind = "leave"     // job to supervisor to worker: all workers are done
	KindReport    Kind = "report"    // worker to supervisor: Report of its work
	KindExited    Kind = "exited"    // supervisor to job: Outcome of its worker of Incarnation

	KindHeartbeat   Kind = "heartbeat"   // worker to supervisor, supervisor to the leader
	KindUnreachable Kind = "unreachable" // worker to supervisor to job: in Generation it cannot reach Process
	KindCommitted   Kind = "committed"   // worker to supervisor to job: in Generation there was a commit; FullyRedundant

	KindFire  Kind = "fire"  // worker to supervisor to job, of Incarnation: may Fault fire?
	KindFired Kind = "fired" // job to supervisor, of Incarnation, and to the worker: Fault may fire if Granted

	KindStop   Kind = "stop"   // finish the step and stop, for Signal: to the job, and from there to the workers
	KindKill   Kind = "kill"   // end at once, for Signal: the same route
	KindAbort  Kind = "abort"  // job to supervisor to worker: another process failed, or the reason Text, which Process prints
	KindEnd    Kind = "end"    // job to supervisor: the job is over with Code
	KindSecret Kind = "secret" // launcher to supervisor: the job's Secret
)

// Message is a message between processes of a job. The comment of each Kind names its fields.
type Message struct {
	Kind        Kind        `json:"kind"`
	Nonce       []byte      `json:"nonce,omitempty"`
	Secret      []byte      `json:"secret,omitempty"`
	Process     int         `json:"process,omitempty"`
	Processes   int         `json:"processes,omitempty"`
	Job         string      `json:"job,omitempty"` // a digest that must be equal on all processes
	Host        string      `json:"host,omitempty"`
	Member      *Member     `json:"member,omitempty"`
	Voters      []Member    `json:"voters,omitempty"`
	Term        uint64      `json:"term,omitempty"`
	Addr        string      `json:"addr,omitempty"`
	PID         int         `json:"pid,omitempty"`
	Generation  uint64      `json:"generation,omitempty"`
	Incarnation int         `json:"incarnation,omitempty"`
	Membership  *Membership `json:"membership,omitempty"`
	Report      *Report     `json:"report,omitempty"`
	Outcome     *Outcome    `json:"outcome,omitempty"`
	Fault       *Fault      `json:"fault,omitempty"`
	Granted     bool        `json:"granted,omitempty"`
	// FullyRedundant reports that everything lost has been rebuilt.
	FullyRedundant bool   `json:"fully_redundant,omitempty"`
	Signal         int    `json:"signal,omitempty"`
	Code           int    `json:"code,omitempty"`
	Text           string `json:"text,omitempty"`
	// Heartbeat is the interval of the worker's heartbeats; 0: it sends none.
	Heartbeat time.Duration `json:"heartbeat,omitempty"`
}

// String is the kind, followed by the fields that are set as JSON.
func (m Message) String() string {
	k := m.Kind
	m.Kind = ""
	rest, err := json.Marshal(m)
	if err != nil {
		panic(err) // every field can be encoded
	}
	if text := string(rest); text != `{"kind":""}` {
		return fmt.Sprintf("%s %s", k, "{"+text[len(`{"kind":"",`):])
	}
	return string(k)
}

// supersededBy reports whether the job no longer needs a message once it has sent form.
func (m Message) supersededBy(form Message) bool {
	switch m.Kind {
	case KindListening, KindDone, KindUnreachable, KindCommitted:
		return m.Generation < form.Generation
	case KindExited, KindFire:
		return m.Incarnation < form.Incarnation
	}
	return false
}
