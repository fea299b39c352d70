package sim

import (
	"fmt"
	"slices"
	"strings"
)

// Outcome is the result of a run.
type Outcome struct {
	Seed          uint64
	Digest        string
	Trace         uint64          // hash of the schedule
	Faults        [len(kinds)]int // that were injected, by kind
	Decisions     int64
	Checks        int  // of parities and rows, of all owners
	Worlds        int  // generations
	Reassigned    int  // processes whose ranks were reassigned
	Replaced      int  // processes that were replaced by a spare
	Restored      bool // a checkpoint, or the logs
	FromLogs      bool // the logs, at least once
	Saves         int  // checkpoints that were saved
	Unsaved       int  // saves that failed
	Kept          int  // checkpoints at the end, all checked
	Cuts          int  // of the topic, all compared
	Followers     int  // processes that followed it, one after the other
	Bases         int  // that these wrote
	LostFolders   int  // of followers
	Harmed        int  // losses of its acknowledged records, and batches in another order
	Gaps          int  // that readers found
	FromTopic     bool // it read its samples from a topic
	Unrecoverable bool // it ended because more was lost than the code tolerates
}

// count is the number of injected faults of a kind.
func (o *Outcome) count(kind string) int {
	return o.Faults[slices.IndexFunc(kinds[:], func(k kindOf) bool { return k.name == kind })]
}

// Sum is the sum of many outcomes.
type Sum struct {
	Faults                               [len(kinds)]int
	Runs, Restored, Unrecoverable        int
	FromLogs                             int
	Checks, Worlds, Reassigned, Replaced int
	Saves, Unsaved, Kept                 int
	Streams, Cuts, FromTopic             int
	Followers, Bases, LostFolders        int
	Harmed, Gaps                         int
	Decisions                            int64
	// Trace is the sum of the runs' traces. It is equal if all runs are equal.
	Trace uint64
}

// Add adds an outcome.
func (s *Sum) Add(o *Outcome) {
	s.Runs++
	for k, n := range o.Faults {
		s.Faults[k] += n
	}
	s.Checks += o.Checks
	s.Worlds += o.Worlds
	s.Reassigned += o.Reassigned
	s.Replaced += o.Replaced
	s.Saves += o.Saves
	s.Unsaved += o.Unsaved
	s.Kept += o.Kept
	s.Cuts += o.Cuts
	if o.Followers > 0 {
		s.Streams++
	}
	s.Followers += o.Followers
	s.Bases += o.Bases
	s.LostFolders += o.LostFolders
	s.Harmed += o.Harmed
	s.Gaps += o.Gaps
	s.Decisions += o.Decisions
	s.Trace += o.Trace
	if o.FromTopic {
		s.FromTopic++
	}
	if o.Restored {
		s.Restored++
	}
	if o.FromLogs {
		s.FromLogs++
	}
	if o.Unrecoverable {
		s.Unrecoverable++
	}
}

func (s *Sum) String() string {
	var faults []string
	for k, n := range s.Faults {
		faults = append(faults, fmt.Sprint(kinds[k].name, " ", n))
	}
	return fmt.Sprintf("faults: %s; %d worlds, %d processes reassigned, %d replaced by spares; %d checks of all parities; %d checkpoints saved, %d failed, %d checked; %d commits of %d streams compared, %d followers, %d bases, %d lost folders, %d breaches of the broker, %d gaps found; %d runs trained from a topic; %d runs restored a checkpoint or logs (%d logs), %d were unrecoverable; %d decisions, trace %016x",
		strings.Join(faults, ", "), s.Worlds, s.Reassigned, s.Replaced, s.Checks, s.Saves, s.Unsaved, s.Kept, s.Cuts, s.Streams,
		s.Followers, s.Bases, s.LostFolders, s.Harmed, s.Gaps, s.FromTopic, s.Restored, s.FromLogs, s.Unrecoverable, s.Decisions, s.Trace)
}

// Failure is a failed run.
type Failure struct {
	Seed    uint64
	Setting string
	Faults  string
	History []string // faults and worlds, in order of time
	Err     error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("seed %d: %v\n  setting: %s\n  faults:\n    %s\n  history:\n    %s", f.Seed, f.Err, f.Setting,
		f.Faults, strings.Join(f.History, "\n    "))
}

func (f *Failure) Unwrap() error { return f.Err }
