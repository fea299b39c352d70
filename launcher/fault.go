package launcher

import "time"

// FaultKind is what happens in a Fault.
type FaultKind string

// The faults.
const (
	FaultKill FaultKind = "kill" // the worker dies
	FaultNode FaultKind = "node" // the worker and its supervisor die
	FaultStop FaultKind = "stop" // the worker stands still for a while
)

// Fault is something that is done to a job on purpose, to see it recover. It
// happens once in a job, whatever is done again.
type Fault struct {
	Number int           `json:"number"` // one of a kind in the job
	Do     FaultKind     `json:"do"`
	For    time.Duration `json:"for,omitempty"`
}
