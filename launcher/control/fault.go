package control

import "time"

// FaultKind is the effect of a Fault.
type FaultKind string

// The kinds of faults.
const (
	FaultKill FaultKind = "kill" // the worker dies
	FaultNode FaultKind = "node" // the worker and its supervisor die
	FaultStop FaultKind = "stop" // the worker is suspended for a while
)

// Fault is a failure that is injected into a job to test its recovery. Each fault fires
// once per job, even if its step is replayed.
type Fault struct {
	Number int           `json:"number"` // unique in the job
	Do     FaultKind     `json:"do"`
	For    time.Duration `json:"for,omitempty"` // FaultStop: the duration
}

// firing is a fault that was granted, and the worker that it was granted to. If the reply
// is lost, the same worker may repeat its request.
type firing struct{ Fault, Supervisor, Incarnation int }
