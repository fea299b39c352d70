package launcher

import (
	"fmt"
	"strings"
)

// Process is one process of a world. Its number is its place in the world's list.
type Process struct {
	// Ranks are those that it hosts, ascending; none where it is gone and others
	// host them.
	Ranks []int `json:"ranks"`
	// Since says of each the generation that brought it to this worker: whoever has
	// known the rank for longer finds it without its state.
	Since []uint64 `json:"since"`
	Addr  string   `json:"addr"` // where its worker listens
	Host  string   `json:"host"` // equal for processes that can share memory
	// Incarnation counts its workers, from 1.
	Incarnation int `json:"incarnation"`
}

// ranksOf are the ranks that fall to a turn: those equal to it modulo the processes.
func ranksOf(turn, processes, ranks int) []int {
	var mine []int
	for r := turn; r < ranks; r += processes {
		mine = append(mine, r)
	}
	return mine
}

// maxNamed bounds a message's list.
const maxNamed = 8

// listOf is "rank 3" or "ranks 3, 4, 7".
func listOf(one, many string, numbers []int) string {
	if len(numbers) == 1 {
		return fmt.Sprintf("%s %d", one, numbers[0])
	}
	var list []string
	for _, r := range numbers[:min(len(numbers), maxNamed)] {
		list = append(list, fmt.Sprint(r))
	}
	if len(numbers) > maxNamed {
		list = append(list, fmt.Sprintf("... %d in all", len(numbers)))
	}
	return many + " " + strings.Join(list, ", ")
}

// Report is how a worker's work ended, as it sees it.
type Report struct {
	Code    int    `json:"code"`  // exit code
	Error   string `json:"error"` // one line; empty when all went well
	Stopped bool   `json:"stopped,omitempty"`
	// Follows says that the error is the consequence of another process's.
	Follows bool `json:"follows,omitempty"`
}

// outcome is how a worker ended, as its supervisor sees it.
type outcome struct {
	Report *Report  `json:"report,omitempty"`
	Code   int      `json:"code,omitempty"`
	Signal int      `json:"signal,omitempty"` // that ended it
	Why    string   `json:"why,omitempty"`    // what else is known: it could not be started, it panicked
	Culled bool     `json:"culled,omitempty"` // its supervisor ended it, as it did not end by itself after another's failure
	Log    string   `json:"log,omitempty"`
	Tail   []string `json:"tail,omitempty"` // the last lines of the log
}

func (o *outcome) failed() bool { return !o.stopped() && (o.Code != 0 || o.Signal != 0 || o.Why != "") }

// crashed reports whether the worker ended without a word of its own: it was
// killed, or the runtime ended it. What it did can be done again.
func (o *outcome) crashed() bool { return o.Signal != 0 || o.failed() && o.Report == nil }

func (o *outcome) stopped() bool { return o.Signal == 0 && o.Report != nil && o.Report.Stopped }

func (o *outcome) follows() bool { return o.Culled || o.Report != nil && o.Report.Follows }

// reason is why a worker failed, without its place.
func (o *outcome) reason() string {
	if o.Report != nil && o.Report.Error != "" && o.Signal == 0 {
		return "failed (" + o.Report.Error + ")"
	}
	return o.fate()
}

// exitCode is the job's, when this worker's failure ends it. An exit code without
// a report is the runtime's, not ours.
func (o *outcome) exitCode() int {
	if o.Signal == 0 && o.Report != nil && o.Report.Code != 0 {
		return o.Report.Code
	}
	return 1
}

// explain says why the worker of a process failed. Bad input is everybody's; all
// else has a place.
func (o *outcome) explain(name string) string {
	if r := o.Report; r != nil && r.Error != "" && o.Signal == 0 && !o.Culled {
		if r.Code == exitBad {
			return r.Error
		}
		return name + ": " + r.Error
	}
	text := name + " " + o.fate()
	if len(o.Tail) > 0 {
		text += "; the end of " + o.Log + ":\n  | " + strings.Join(o.Tail, "\n  | ")
	}
	return text
}

// fate is what became of a worker that gave no reason.
func (o *outcome) fate() string {
	switch {
	case o.Culled:
		return "did not answer any more and was ended"
	case o.Why != "":
		return o.Why
	case o.Signal != 0:
		return fmt.Sprintf("was ended by signal %d%s", o.Signal, signalHint(o.Signal))
	}
	return fmt.Sprintf("ended with exit code %d and gave no reason", o.Code)
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

// The exit codes of a job; 128 and a signal's number when that stopped it.
const (
	exitFailed = 1
	exitBad    = 2
	exitSignal = 128
)
