package follow

import (
	"time"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/stream"
)

// Values of Options.At beside steps.
const (
	// Latest is that of a Follower that does not end.
	Latest = -1
	// Newest is that of a Follower that ends with the newest model that the topic had when it began, and a full checkpoint of it.
	Newest = -2
)

// Options describe a Follower.
type Options struct {
	Env   env.Env
	Topic stream.Topic
	Dir   string // of checkpoints
	// At is the step at which the Follower ends, with a full checkpoint; or Latest, or Newest.
	At int64
	// ToEnd makes a step that the topic did not have when the Follower began an error: it is not waited for.
	ToEnd bool
	// Anew drops the checkpoints that Followers have saved in the folder.
	Anew bool
	// Check, if set, is called with each model that the Follower begins with. An error ends it.
	Check func(checkpoint.Model) error
	// Every is the least time between two checkpoints.
	Every time.Duration
	// Full makes each checkpoint a full one.
	Full bool
	Keep int // how many checkpoints are kept; 0: all
	// Trim writes bases, and removes the part of the topic before the newest of them.
	Trim bool
	// Session is a random number, drawn by each process.
	Session uint64
	// Stop is called now and then. Once it returns true, Run saves the newest model and ends.
	Stop func() bool
	// Report is called for each cut that was applied, and for each checkpoint.
	Report func(Progress)
	// Publish is called with each model whose digest was compared: those of cuts, and that of the checkpoint that
	// Run begins with. Run waits for it. Nil: there are no readers of the model in memory.
	Publish func(*View) error
	// Idle is called while Run waits for a cut. The View that was published last may be used until it returns.
	Idle func()
	// Warn is called with what a user should know.
	Warn func(string)
}

// Progress is the state of a Follower.
type Progress struct {
	Step    int64
	Rows    int    // of the cut
	Digest  string // of the model; empty: the run had none
	Path    string // of the checkpoint that was saved; empty: none was
	Base    string // the topic to which a base was written; empty: none was
	Written int64  // when the cut was written, in milliseconds since 1970; 0: unknown
	Merged  int    // markers that were skipped before it
	Touched int64  // rows that differ from their init, or did
}

// Follower follows a topic.
type Follower struct {
	o         Options
	lock      *checkpoint.Lock
	model     *model // nil: nothing was applied
	last      int64  // the step of the last checkpoint; -1: there is none
	path      string // of that checkpoint
	increment bool   // it is one
	saved     time.Duration
	saves     saves
	right     int64 // the newest step whose digest was compared; -1: none
	began     bool  // the model that Run begins with is that of a base
	misfit    error // the topic does not continue the base that the Follower had begun with
	reached   bool  // Run has ended at its step

	bases      *stream.Bases // nil: not open
	based      int64         // the step of the base that was written last; -1: none
	firstBase  int64         // the step of the oldest base after Options.At; -1: none is known
	grown      int64         // bytes of the topic since the last base
	superseded bool          // another follower writes bases, which was reported
	silent     bool          // the broker does not answer, which was reported
}

// Step is the step of the model, -1 if there is none.
func (f *Follower) Step() int64 {
	if f.model == nil {
		return -1
	}
	return f.model.step
}

// FromBase reports whether the Follower has begun with a base of the topic.
func (f *Follower) FromBase() bool { return f.began }

// Reached reports whether Run has ended at Options.At, and not before, by Options.Stop.
func (f *Follower) Reached() bool { return f.reached }

// Path is that of the last checkpoint, empty if there is none.
func (f *Follower) Path() string { return f.path }

// saves remembers the checkpoints of a Follower.
type saves struct {
	parent *checkpoint.Parent // of the next increment; nil: it is full
	chain  int                // increments since the last full one
	rows   [2]int64           // of the last full one, and of the increments since
}

// leaveRun notes that the next model is of another run: no checkpoint has it, also if one has its step.
func (f *Follower) leaveRun() { f.last, f.increment = -1, false }

func (f *Follower) dropModel() {
	if f.model != nil {
		f.model.free()
	}
	f.model, f.saves = nil, saves{}
}
