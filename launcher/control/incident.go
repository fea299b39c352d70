package control

import (
	"slices"
	"time"

	eventlog "github.com/ecrec/ecrec/internal/event"
)

// IncidentKind is the kind of an Incident.
type IncidentKind string

// The kinds of incidents.
const (
	IncidentLoss    IncidentKind = "loss"           // Process was lost
	IncidentJoin    IncidentKind = "join"           // Process joined the running job as a spare
	IncidentReturn  IncidentKind = "returned"       // a spare took over Process, whose ranks had been reassigned
	IncidentWarning IncidentKind = "warning"        // all processes reconnect
	IncidentStop    IncidentKind = "stop_requested" // a signal requested a stop
)

// Incident is a loss, a join or a request to stop, as it is recorded in the run's files.
type Incident struct {
	Seq     int64          `json:"seq"` // 1, 2, ... in a job
	At      int64          `json:"at"`  // when: nanoseconds of Unix time
	Kind    IncidentKind   `json:"kind"`
	Process int            `json:"process"`
	Ranks   []int          `json:"ranks,omitempty"`
	Node    string         `json:"node,omitempty"`
	PID     int            `json:"pid,omitempty"` // of the worker
	Cause   string         `json:"cause,omitempty"`
	Code    eventlog.Cause `json:"cause_code,omitempty"`
	// Generation is the generation that formed because of it; 0: none did.
	Generation uint64 `json:"generation,omitempty"`
	// By is the process that hosts the ranks from then on; nil: several others do, or none.
	By *Substitute `json:"by,omitempty"`
}

// Substitute is the process that took the place of a lost one: a new worker of the same
// number, or a spare.
type Substitute struct {
	Process int    `json:"process"`
	Node    string `json:"node,omitempty"`
	PID     int    `json:"pid,omitempty"` // 0: its worker has no address yet
}

// Time is when the incident happened.
func (i Incident) Time() time.Time { return time.Unix(0, i.At) }

// Closing is how a job ended.
type Closing struct {
	ID        string // the job's: equal to World.ID
	Code      int
	Stopped   bool   // by a signal, with all saved
	Why       string // the message about it; "" if all went well
	Incidents []Incident
}

// maxIncidents bounds the incidents that a job keeps: those of the newest generations,
// which the process that records them has not received yet.
const maxIncidents = 256

// incidentLog holds the newest incidents of a job.
type incidentLog struct {
	Count int64 // of all incidents so far
	List  []Incident
}

// addIncident appends an incident that happens now, in nanoseconds of Unix time.
func (l *incidentLog) addIncident(i Incident, now int64) {
	l.Count++
	i.Seq, i.At = l.Count, now
	if len(l.List) == maxIncidents {
		l.List = slices.Delete(l.List, 0, 1)
	}
	l.List = append(l.List, i)
}

// setPID sets a worker's process id in the incidents for which it was started.
func (l *incidentLog) setPID(process, pid int) {
	for n := range l.List {
		if i := &l.List[n]; i.Process == process && i.By != nil && i.By.PID == 0 {
			by := *i.By
			by.PID = pid
			i.By = &by
		}
	}
}
