package control

import (
	"cmp"
	"fmt"
	"strings"

	eventlog "github.com/ecrec/ecrec/internal/event"
)

// The exit codes of a job. A job that a signal stopped exits with 128 plus its number.
const (
	ExitFailed = 1
	ExitBad    = 2
	ExitSignal = 128
)

// Report is how a worker's work ended, as the worker reports it.
type Report struct {
	Code    int    `json:"code"`  // exit code
	Error   string `json:"error"` // one line; empty if the work succeeded
	Stopped bool   `json:"stopped,omitempty"`
	// IsConsequence marks an error that another process's failure caused.
	IsConsequence bool `json:"is_consequence,omitempty"`
}

// Outcome is how a worker ended, as its supervisor observed it.
type Outcome struct {
	Report *Report        `json:"report,omitempty"`
	Code   int            `json:"code,omitempty"`
	Signal int            `json:"signal,omitempty"` // the signal that ended it
	Why    string         `json:"why,omitempty"`    // a further reason: it could not be started, it panicked
	Cause  eventlog.Cause `json:"cause,omitempty"`  // of Why; "": exit
	Culled bool           `json:"culled,omitempty"` // its supervisor killed it, because it did not end after another's failure
	Log    string         `json:"log,omitempty"`
	Tail   []string       `json:"tail,omitempty"` // the last lines of the log
}

// cause is why something happened: for people, and for programs.
type cause struct {
	Text string
	Code eventlog.Cause
}

// isGone is the cause of a loss whose supervisor is lost.
var isGone = cause{"is lost: its supervisor is gone", eventlog.SupervisorGone}

// onNewMachine is the cause of a failure on a machine that had done nothing for the job.
func (c cause) onNewMachine() cause {
	c.Text += " on a machine that was new to it, which is not used again"
	return c
}

func (o *Outcome) hasFailed() bool {
	return !o.wasStopped() && (o.Code != 0 || o.Signal != 0 || o.Why != "")
}

// hasCrashed reports whether the worker ended without a report: a signal or the runtime
// killed it. Its work can be redone.
func (o *Outcome) hasCrashed() bool { return o.Signal != 0 || o.hasFailed() && o.Report == nil }

func (o *Outcome) wasStopped() bool { return o.Signal == 0 && o.Report != nil && o.Report.Stopped }

// isConsequence reports whether another process's failure ended the worker.
func (o *Outcome) isConsequence() bool {
	return o.Culled || o.Report != nil && o.Report.IsConsequence
}

// failureCause is why a worker failed, without its place.
func (o *Outcome) failureCause() cause {
	if o.Report != nil && o.Report.Error != "" && o.Signal == 0 {
		return cause{"failed (" + o.Report.Error + ")", eventlog.Exit}
	}
	return o.deathCause()
}

// deathCause is why a worker ended that sent no report.
func (o *Outcome) deathCause() cause {
	switch {
	case o.Culled:
		return cause{"stopped answering and was killed", eventlog.Silent}
	case o.Why != "":
		return cause{o.Why, cmp.Or(o.Cause, eventlog.Exit)}
	case o.Signal != 0:
		return cause{fmt.Sprintf("was ended by signal %d%s", o.Signal, signalHint(o.Signal)), eventlog.Signal}
	}
	return cause{fmt.Sprintf("ended with exit code %d and gave no reason", o.Code), eventlog.Exit}
}

// exitCode is the job's exit code if this worker's failure ends it. An exit code without a
// report is the Go runtime's.
func (o *Outcome) exitCode() int {
	if o.Signal == 0 && o.Report != nil && o.Report.Code != 0 {
		return o.Report.Code
	}
	return ExitFailed
}

// explain is the message about a failed worker of the process called name. Bad input is
// the same on every process, so its message names none.
func (o *Outcome) explain(name string) string {
	if r := o.Report; r != nil && r.Error != "" && o.Signal == 0 && !o.Culled {
		if r.Code == ExitBad {
			return r.Error
		}
		return name + ": " + r.Error
	}
	text := name + " " + o.deathCause().Text
	if len(o.Tail) > 0 {
		text += "; the end of " + o.Log + ":\n  | " + strings.Join(o.Tail, "\n  | ")
	}
	return text
}

func signalHint(signal int) string {
	switch signal {
	case 9:
		return " (SIGKILL: by hand, or by the system, short of memory)"
	case 7:
		return " (SIGBUS: a file or shared memory was cut short, or the disk is full)"
	case 11:
		return " (SIGSEGV)"
	case 6:
		return " (SIGABRT)"
	}
	return ""
}
