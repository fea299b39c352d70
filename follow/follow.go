package follow

import (
	"encoding/json"
	"errors"
	"fmt"
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

	bases      *stream.Bases // nil: not open
	based      int64         // the step of the base that was written last; -1: none
	firstBase  int64         // the step of the oldest base after Options.At; -1: none is known
	grown      int64         // bytes of the topic since the last base
	superseded bool          // another follower writes bases, which was reported
	silent     bool          // the broker does not answer, which was reported
}

// Open begins with the newest checkpoint in the folder, or else with the newest base of the topic.
func Open(o Options) (f *Follower, err error) {
	if o.Report == nil {
		o.Report = func(Progress) {}
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	f = &Follower{o: o, last: -1, based: -1, firstBase: -1, right: -1, saved: o.Env.Now()}
	if f.lock, err = checkpoint.Hold(o.Env, o.Dir, time.Second); err != nil {
		return nil, err
	}
	if o.Anew {
		err = f.dropFolder()
	} else {
		err = f.loadNewest()
	}
	if err == nil && f.model == nil {
		if f.began, err = f.loadBase(); err != nil { // the topic may have its beginning
			f.o.Warn(fmt.Sprintf("no base can be used: %v", err))
			err = nil
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close frees the model.
func (f *Follower) Close() {
	f.dropModel()
	if f.bases != nil {
		f.bases.Close()
	}
	f.lock.Close()
}

func (f *Follower) dropModel() {
	if f.model != nil {
		f.model.free()
	}
	f.model, f.saves = nil, saves{}
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

// Path is that of the last checkpoint, empty if there is none.
func (f *Follower) Path() string { return f.path }

// applyCut applies a cut to the model, and compares the digests.
func (f *Follower) applyCut(c *stream.Cut) error {
	first := c.Epochs[0]
	if f.model != nil && c.Lineage != f.model.at[0].Lineage {
		f.o.Warn(fmt.Sprintf("the run forked: lineage %s goes on from step %d with other settings, and its model replaces that of step %d of lineage %s",
			c.Lineage.Short(), c.Step, f.model.step, f.model.at[0].Lineage.Short()))
	}
	if len(first.About) == 0 && (f.model == nil || c.Lineage != f.model.at[0].Lineage) {
		return &stream.Gap{Offset: first.Next - 1, Held: int64(f.Step()), Why: "the description of the run is missing"}
	}
	if f.model == nil || c.Lineage != f.model.at[0].Lineage {
		f.dropModel()
		m, err := newModel(f.o.Env, first.About)
		if err != nil {
			return err
		}
		m.readers = f.o.Publish != nil
		if f.model = m; f.o.Check != nil {
			if err := f.o.Check(m.model); err != nil {
				return err
			}
		}
	}
	if err := f.model.apply(c); err != nil {
		return err
	}
	if f.model.want != "" {
		f.right = c.Step
	}
	for _, e := range c.Epochs {
		f.grown += int64(len(e.Rows) + len(e.Extra))
	}
	return nil
}

// isDue reports whether a checkpoint is due.
func (f *Follower) isDue() bool {
	return f.model != nil && f.model.step > f.last && f.model.want != "" && f.o.Env.Now()-f.saved >= f.o.Every
}

// saveLast saves the model, unless it is saved.
func (f *Follower) saveLast() error {
	if f.model == nil || f.model.step == f.last || f.model.want == "" {
		return nil
	}
	return f.save(f.o.Full)
}

// Mismatch is the error of a model that is not that of the run.
type Mismatch struct {
	Step       int64
	Have, Want string
}

func (e *Mismatch) Error() string {
	return fmt.Sprintf("the model of step %d has the digest %s, that of the run had %s: it is not published; begin again in another folder",
		e.Step, e.Have, e.Want)
}

// about is the description of a run, with the model that it trains.
type about struct {
	stream.About
	model checkpoint.Model
}

func parseAbout(text []byte) (a about, err error) {
	if err = json.Unmarshal(text, &a.About); err == nil {
		err = json.Unmarshal(a.Model, &a.model)
	}
	if err == nil {
		err = a.model.Check()
	}
	if err == nil && len(a.Owners) == 0 {
		err = errors.New("it has no ranks")
	}
	if err != nil {
		return a, fmt.Errorf("the description of the run: %w", err)
	}
	return a, nil
}

// owners is how many ranks own rows.
func (a *about) owners() (n int) {
	for _, owner := range a.Owners {
		n = max(n, owner+1)
	}
	return n
}
