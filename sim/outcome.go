package sim

import "fmt"

// Outcome is how a run went.
type Outcome struct {
	Seed      uint64
	Digest    string
	Trace     uint64 // hash of the schedule
	Decisions int64
	Faults    int // that happened
	Checks    int // of parities and rows, of all owners
	Worlds    int
	FellBack  bool // to a checkpoint
	Beyond    bool // it ended, since more was lost than the code makes good
	Tail      bool // a loss came when some processes had ended already, done
}

// Sum is many outcomes.
type Sum struct {
	Runs, Faults, Checks, Worlds, FellBack, Beyond, Tails int
	Decisions                                             int64
	// Trace is the sum of the runs' traces: equal where they all are.
	Trace uint64
}

// Add adds one.
func (s *Sum) Add(o *Outcome) {
	s.Runs++
	s.Faults += o.Faults
	s.Checks += o.Checks
	s.Worlds += o.Worlds
	s.Decisions += o.Decisions
	s.Trace += o.Trace
	for _, x := range []struct {
		is    bool
		count *int
	}{{o.FellBack, &s.FellBack}, {o.Beyond, &s.Beyond}, {o.Tail, &s.Tails}} {
		if x.is {
			*x.count++
		}
	}
}

func (s *Sum) String() string {
	return fmt.Sprintf("%d faults, %d worlds, %d checks of all parities, %d fell back to a checkpoint, %d lost more than can be made good, %d lost a process that was done; %d decisions, trace %016x",
		s.Faults, s.Worlds, s.Checks, s.FellBack, s.Beyond, s.Tails, s.Decisions, s.Trace)
}

// Failure is a run that went wrong.
type Failure struct {
	Seed    uint64
	Setting string
	Faults  string
	Err     error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("seed %d: %v\n  setting: %s\n  faults: %s", f.Seed, f.Err, f.Setting, f.Faults)
}

func (f *Failure) Unwrap() error { return f.Err }
