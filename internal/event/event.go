package event

import (
	"math"
	"slices"
	"time"
)

// Name is the kind of an event.
type Name string

// The events.
const (
	Start            Name = "start"
	Resume           Name = "resume"
	Loss             Name = "loss"
	Recovered        Name = "recovered"
	Eval             Name = "eval"
	Checkpoint       Name = "checkpoint"
	CheckpointFailed Name = "checkpoint_failed"
	Commit           Name = "commit"
	Durable          Name = "durable"
	Join             Name = "join"
	Returned         Name = "returned"
	Warning          Name = "warning"
	StopRequested    Name = "stop_requested"
	End              Name = "end"
	Failed           Name = "failed"
)

// Names lists all events in the order of doc.go, each with an explanation and its keys in addition
// to time and event.
var Names = []struct {
	Name   Name
	Says   string
	Fields []string
}{
	{Start, "the job trains from its first step", []string{"members", "version", "job", "spares"}},
	{Resume, "the job trains from a checkpoint", []string{"step", "path", "topic", "members", "version", "job", "spares"}},
	{Loss, "a process was lost", []string{"step", "process", "ranks", "node", "pid", "cause", "cause_code", "generation",
		"replaced_by", "spares"}},
	{Recovered, "lost ranks are fully rebuilt", []string{"step", "ranks", "node", "committed_step", "resume_ms", "whole_ms",
		"rebuild_bytes_per_s", "spares"}},
	{Eval, "an evaluation", []string{"step", "process", "node", "logloss", "auc"}},
	{Checkpoint, "a checkpoint was saved", []string{"step", "process", "node", "path"}},
	{CheckpointFailed, "a checkpoint could not be saved", []string{"step", "process", "node", "error"}},
	{Commit, "the digest of the whole model at a commit", []string{"step", "digest"}},
	{Durable, "all updates up to this step survive the loss of all processes (store.path)", []string{"step"}},
	{Join, "a process joined the running job as a spare", []string{"process", "node", "spares"}},
	{Returned, "a process rejoined and its ranks were moved back to it; recovered follows",
		[]string{"process", "ranks", "generation", "replaced_by", "spares"}},
	{Warning, "the run continues, but needs attention", []string{"cause", "cause_code"}},
	{StopRequested, "a signal asked the job to stop", []string{"cause"}},
	{End, "the job finished, or was stopped with progress saved", []string{"step", "node", "digest", "cause"}},
	{Failed, "the job failed", []string{"step", "node", "error"}},
}

// IsFrequent reports whether there may be many such events each second. They are in events.jsonl alone.
func (n Name) IsFrequent() bool { return n == Commit || n == Durable }

// Event is one line. Fields for which zero is a value are pointers; if nil, the key is omitted.
type Event struct {
	Time       Time     `json:"time"`
	Event      Name     `json:"event"`
	Step       int64    `json:"step,omitempty"` // 0: before the first step, or unknown
	Process    *int     `json:"process,omitempty"`
	Rank       *int     `json:"rank,omitempty"`
	Ranks      []int    `json:"ranks,omitempty"`
	Node       string   `json:"node,omitempty"` // the host's name for people
	PID        int      `json:"pid,omitempty"`
	Cause      string   `json:"cause,omitempty"`
	CauseCode  Cause    `json:"cause_code,omitempty"` // the kind of cause, for programs
	Generation uint64   `json:"generation,omitempty"`
	ReplacedBy *Process `json:"replaced_by,omitempty"` // absent: other processes host the ranks
	ResumeMS   float64  `json:"resume_ms,omitempty"`   // from the loss to the first step after it

	Path          string    `json:"path,omitempty"`
	Topic         string    `json:"topic,omitempty"`   // from which the checkpoint at Path was restored
	LogLoss       *float64  `json:"logloss,omitempty"` // absent: not finite
	AUC           *float64  `json:"auc,omitempty"`     // absent: undefined
	Digest        string    `json:"digest,omitempty"`
	Bytes         int64     `json:"bytes,omitempty"`
	CommittedStep int64     `json:"committed_step,omitempty"`      // the step to which a recovery went back
	WholeMS       float64   `json:"whole_ms,omitempty"`            // from the loss to the last row rebuilt
	RebuildRate   float64   `json:"rebuild_bytes_per_s,omitempty"` // of each lost rank, on average
	Members       []Process `json:"members,omitempty"`             // the processes that train
	Version       string    `json:"version,omitempty"`             // of the program
	Job           string    `json:"job,omitempty"`                 // identifies the run in its folder
	Error         string    `json:"error,omitempty"`
	// Seq numbers, from 1, the incidents that the launcher reported about a job's processes. A
	// process that continues the file writes the incidents after the last number in it.
	Seq int64 `json:"seq,omitempty"`
	// Spares is the number of spare processes in the newest generation. Absent: the job has no
	// code.
	Spares *int `json:"spares,omitempty"`
}

// Process is a process of the job: its number, its ranks, and its location.
type Process struct {
	Process int    `json:"process"`
	Ranks   []int  `json:"ranks,omitempty"`
	Node    string `json:"node,omitempty"`
	PID     int    `json:"pid,omitempty"`
}

// HasSpares reports whether events of this name have the key spares.
func (n Name) HasSpares() bool {
	for _, e := range Names {
		if e.Name == n {
			return slices.Contains(e.Fields, "spares")
		}
	}
	return false
}

// Number returns a number that is written even if it is zero.
func Number(n int) *int { return &n }

// Finite returns x, or nil if x is not finite: JSON has no such number.
func Finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// Time is the time of an event.
type Time struct{ time.Time }

const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// MarshalJSON implements json.Marshaler: UTC with milliseconds.
func (t Time) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"`+timeFormat+`"`), nil
}

// At returns a time with the precision of events.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }
