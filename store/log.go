package store

import "time"

// Log is the log of a rank, as package rowlog has it. In its epochs a step is the one after the last of the epoch.
type Log interface {
	// Step is the step of the newest epoch, 0 if there is none.
	Step() int64
	StepUpTo(step int64) int64
	Holds(step int64) bool
	// CutTo removes the epochs after a step.
	CutTo(step int64) error
	// AppendPart appends some rows of an epoch that Append completes.
	AppendPart(step int64, slots []int32, rows []byte) error
	Append(step int64, slots []int32, rows, extra []byte) error
	// Sync makes all epochs durable.
	Sync() error
	// Durable is the newest durable epoch.
	Durable() int64
	Settle(step int64)
	Clean(bytes int64) error
	// Failed returns the error after which the log takes nothing more.
	Failed() error
	Close()
}

// continuer is a Log whose readers may hold a model without its rows being in the log.
type continuer interface {
	// Continues reports whether readers hold the model of a step, or of a later one of the same run.
	Continues(step int64) bool
}

// timed is a Log that has the time for which its broker is silent.
type timed interface {
	// Unanswered is how long the broker has left records without an acknowledgement; 0: none waits.
	Unanswered() time.Duration
}

// lastingError returns an error of a log that is not to be opened again.
func lastingError(err error) error {
	if x, ok := err.(interface{ Lasts() bool }); ok && x.Lasts() {
		return err
	}
	return nil
}
