package sim

import (
	"fmt"
	"strings"
)

// Outcome is how a run went.
type Outcome struct {
	Seed      uint64
	Digest    string
	Trace     uint64          // hash of the schedule
	Faults    [len(kinds)]int // that happened, by kind
	Decisions int64
	Checks    int  // of parities and rows, of all owners
	Worlds    int  // generations
	Adopted   int  // processes whose ranks others have adopted
	Replaced  int  // processes that went to a spare
	FellBack  bool // to a checkpoint
	Beyond    bool // it ended, since more was lost than the code makes good
}

// Sum is many outcomes.
type Sum struct {
	Faults                            [len(kinds)]int
	Runs, FellBack, Beyond            int
	Checks, Worlds, Adopted, Replaced int
	Decisions                         int64
	// Trace is the sum of the runs' traces: equal where they all are.
	Trace uint64
}

// Add adds one.
func (s *Sum) Add(o *Outcome) {
	s.Runs++
	for k, n := range o.Faults {
		s.Faults[k] += n
	}
	s.Checks += o.Checks
	s.Worlds += o.Worlds
	s.Adopted += o.Adopted
	s.Replaced += o.Replaced
	s.Decisions += o.Decisions
	s.Trace += o.Trace
	if o.FellBack {
		s.FellBack++
	}
	if o.Beyond {
		s.Beyond++
	}
}

func (s *Sum) String() string {
	var faults []string
	for k, n := range s.Faults {
		faults = append(faults, fmt.Sprint(kinds[k].name, " ", n))
	}
	return fmt.Sprintf("%s; %d worlds, %d processes adopted, %d replaced by spares; %d checks of all parities; %d runs fell back to a checkpoint, %d lost more than can be made good; %d decisions, trace %016x",
		strings.Join(faults, ", "), s.Worlds, s.Adopted, s.Replaced, s.Checks, s.FellBack, s.Beyond, s.Decisions, s.Trace)
}

// Failure is a run that went wrong.
type Failure struct {
	Seed    uint64
	Setting string
	Faults  string
	History []string // faults and worlds, as they came
	Err     error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("seed %d: %v\n  setting: %s\n  faults: %s\n  %s", f.Seed, f.Err, f.Setting, f.Faults, strings.Join(f.History, "\n  "))
}

func (f *Failure) Unwrap() error { return f.Err }
