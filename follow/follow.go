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

// Latest is the Options.At of a Follower that does not end.
const Latest = -1

// Options describe a Follower.
type Options struct {
	Env   env.Env
	Topic stream.Topic
	Dir   string // of checkpoints
	// At is the step at which the Follower ends, with a full checkpoint; Latest: it does not end.
	At int64
	// Every is the least time between two checkpoints.
	Every time.Duration
	// Full makes each checkpoint a full one.
	Full bool
	Keep int // how many checkpoints are kept; 0: all
	// Trim removes the part of the topic that is older than the oldest checkpoint.
	Trim bool
	// Stop is called now and then. Once it returns true, Run saves the newest model and ends.
	Stop func() bool
	// Report is called for each cut that was applied, and for each checkpoint.
	Report func(Progress)
	// Publish is called, before Run goes on, with each model whose digest was compared: those of cuts, and that of the checkpoint that
	// Run begins with. Nil: there are no readers of the model in memory.
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
	Written int64  // when the cut was written, in milliseconds since 1970; 0: unknown
	Merged  int    // markers that were skipped before it
	Touched int64  // rows that differ from their init, or did
}

// Follower follows a topic.
type Follower struct {
	o     Options
	lock  *checkpoint.Lock
	model *model // nil: nothing was applied
	last  int64  // the step of the last checkpoint; -1: there is none
	saved time.Duration
	saves saves
}

// Open begins with the newest checkpoint in the folder, if there is one.
func Open(o Options) (f *Follower, err error) {
	if o.Report == nil {
		o.Report = func(Progress) {}
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	f = &Follower{o: o, last: -1, saved: o.Env.Now()}
	if f.lock, err = checkpoint.Hold(o.Env, o.Dir, time.Second); err != nil {
		return nil, err
	}
	if err := f.loadNewest(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close frees the model.
func (f *Follower) Close() {
	if f.model != nil {
		f.model.free()
	}
	f.lock.Close()
}

// Step is the step of the model, -1 if there is none.
func (f *Follower) Step() int64 {
	if f.model == nil {
		return -1
	}
	return f.model.step
}

// pollFor is how long Run waits for a cut before it calls Stop.
const pollFor = 100 * time.Millisecond

// Run applies cuts until the step Options.At, or until Stop.
func (f *Follower) Run() error {
	if f.o.At >= 0 && f.Step() > f.o.At {
		return fmt.Errorf("%s is at step %d already, after step %d: use another folder", f.o.Dir, f.Step(), f.o.At)
	}
	if err := f.publishFirst(); err != nil || f.o.At >= 0 && f.Step() == f.o.At {
		return err
	}
	var at []stream.Position
	if f.model != nil {
		at = f.model.at
	}
	r, err := stream.OpenReader(stream.ReaderOptions{Env: f.o.Env, Topic: f.o.Topic, At: at})
	if err != nil {
		return &Unreadable{err}
	}
	defer r.Close()
	for {
		c, err := r.Next(pollFor)
		if err != nil {
			return errors.Join(&Unreadable{err}, f.saveLast())
		}
		if c != nil {
			if done, err := f.takeCut(c); err != nil || done {
				return err
			}
		} else {
			f.Offer()
		}
		if f.isDue() {
			if err := f.save(f.o.Full); err != nil {
				return err
			}
		}
		if f.o.Stop() {
			return f.saveLast()
		}
	}
}

// takeCut applies a cut. It reports whether the Follower is at the step where it ends.
func (f *Follower) takeCut(c *stream.Cut) (done bool, err error) {
	if f.o.At >= 0 && c.Step > f.o.At {
		return false, fmt.Errorf("the topic has no model of step %d: the nearest are those of steps %d and %d", f.o.At, f.Step(), c.Step)
	}
	if err := f.applyCut(c); err != nil {
		return false, err
	}
	if err := f.publish(); err != nil {
		return false, err
	}
	p := Progress{Step: c.Step, Digest: f.model.want, Written: f.model.written, Merged: c.Merged, Touched: f.model.touched()}
	for _, e := range c.Epochs {
		p.Rows += len(e.Slots)
	}
	f.o.Report(p)
	if c.Step != f.o.At {
		return false, nil
	}
	return true, f.save(true)
}

// applyCut applies a cut to the model, and compares the digests.
func (f *Follower) applyCut(c *stream.Cut) error {
	first := c.Epochs[0]
	if f.model != nil && c.Lineage != f.model.at[0].Lineage {
		f.o.Warn(fmt.Sprintf("the run forked: lineage %s goes on from step %d with other settings, and its model replaces that of step %d of lineage %s",
			c.Lineage.Short(), c.Step, f.model.step, f.model.at[0].Lineage.Short()))
	}
	if len(first.About) == 0 && f.model == nil {
		return errors.New("the topic does not describe its run: its beginning is missing")
	}
	if f.model == nil || c.Lineage != f.model.at[0].Lineage {
		if f.model != nil {
			f.model.free()
			f.model, f.saves = nil, saves{}
		}
		m, err := newModel(f.o.Env, first.About)
		if err != nil {
			return err
		}
		m.readers = f.o.Publish != nil
		f.model = m
	}
	return f.model.apply(c)
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
