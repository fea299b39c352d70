package follow

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ecrec/ecrec/stream"
)

// pollFor is how long Run waits for a cut before it calls Stop.
const pollFor = 100 * time.Millisecond

// Run applies cuts until the step Options.At, until the end of the topic if the Options ask for that, or until Stop.
func (f *Follower) Run() error {
	if f.o.At >= 0 && f.Step() > f.o.At {
		return fmt.Errorf("%s is at step %d already, after step %d: use another folder", f.o.Dir, f.Step(), f.o.At)
	}
	if err := f.publishFresh(); err != nil {
		return err
	}
	if f.o.At >= 0 && f.Step() == f.o.At {
		return f.reach()
	}
	for {
		r, err := f.openReader()
		if err != nil {
			return &Unreadable{f.explain(err)}
		}
		if err = f.publishFresh(); err == nil { // a base
			err = f.readOn(r)
		}
		r.Close()
		if err == errMisfit {
			continue
		}
		if !errors.As(err, new(*stream.Trimmed)) {
			return err
		}
		if again, fault := f.skipToBase(); fault != nil || !again {
			return errors.Join(err, fault)
		}
	}
}

// errMisfit ends the reading of a topic that does not continue the base.
var errMisfit = errors.New("the topic does not continue the base")

// leavesBase drops a base that the topic does not continue, since nothing has followed on it: the topic may have been made anew, longer than
// it was. It is then read from its beginning.
func (f *Follower) leavesBase(err error) bool {
	var gap *stream.Gap
	if !errors.As(err, &gap) || f.model == nil || !f.began || f.model.cuts > 1 || f.last >= 0 {
		return false
	}
	f.o.Warn(fmt.Sprintf("the topic does not continue the base of step %d, and is followed from its beginning: %v", f.Step(), gap))
	f.misfit, f.began = gap, false
	f.dropModel()
	return true
}

// openReader opens the topic behind the model. If it was trimmed there, the newest base replaces the model.
func (f *Follower) openReader() (*stream.Reader, error) {
	for {
		o := stream.ReaderOptions{Env: f.o.Env, Topic: f.o.Topic, ToEnd: f.o.ToEnd || f.o.At == Newest}
		if f.model != nil {
			o.At = f.model.at
			o.Left = f.model.Run.Forks
		}
		r, err := stream.OpenReader(o)
		var gone *stream.Trimmed
		if !errors.As(err, &gone) {
			return r, err
		}
		again, fault := f.skipToBase()
		switch {
		case fault != nil:
			return nil, errors.Join(err, fault)
		case again:
		case f.began && f.last < 0 && gone.Offset > gone.After: // the topic was made anew, and the base was left
			f.o.Warn(fmt.Sprintf("the base of step %d is not of this topic, which is followed from its beginning", f.Step()))
			f.dropModel()
			f.began = false
		default:
			return nil, err
		}
	}
}

// skipToBase begins with a base that is newer than the model, since the records between them are gone. It reports whether there is one.
func (f *Follower) skipToBase() (bool, error) {
	from := f.Step()
	loaded, err := f.loadBase()
	if loaded {
		f.began = true
		f.o.Warn(fmt.Sprintf("the topic was trimmed behind step %d: the base of step %d replaces it", from, f.Step()))
	}
	return loaded, err
}

// explain adds the reason to an error of a topic whose beginning is missing.
func (f *Follower) explain(err error) error {
	if f.model != nil || !errors.As(err, new(*stream.Gap)) {
		return err
	}
	if f.misfit != nil {
		return fmt.Errorf("the topic neither continues its base (%w) nor has its beginning (%w): if it was made anew, remove %s", f.misfit, err,
			f.o.Topic.Base().Name())
	}
	if f.firstBase >= 0 && f.o.At >= 0 {
		return fmt.Errorf("the topic has no model of step %d: it was trimmed, and its oldest base is that of step %d (%w)", f.o.At,
			f.firstBase, err)
	}
	return fmt.Errorf("the beginning of the topic was trimmed, and %s has no base: copy the folder of another follower, or use a new topic (%w)",
		f.o.Topic.Base().Name(), err)
}

// readOn applies the cuts of a reader.
func (f *Follower) readOn(r *stream.Reader) error {
	for {
		c, err := r.Next(pollFor)
		if errors.Is(err, io.EOF) {
			return f.endAtEnd()
		}
		if err != nil && f.leavesBase(err) {
			return errMisfit
		}
		if err != nil {
			return errors.Join(&Unreadable{f.explain(err)}, f.saveLast())
		}
		if c != nil {
			if done, err := f.takeCut(c); err != nil || done {
				return err
			}
		} else {
			f.Offer()
		}
		if err := f.noteSilence(r); err != nil {
			return errors.Join(err, f.saveLast())
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

// noteSilence reports a broker that does not answer, and its return.
func (f *Follower) noteSilence(r *stream.Reader) error {
	err := r.Silence()
	if silent := err != nil; silent != f.silent {
		if f.silent = silent; silent {
			f.o.Warn(fmt.Sprintf("%s: %v; waiting for it", f.o.Topic.Name(), err))
		} else {
			f.o.Warn(fmt.Sprintf("%s: the broker answers again", f.o.Topic.Name()))
		}
	}
	if f.o.ToEnd || f.o.At == Newest {
		return isSilent(r)
	}
	return nil
}

// takeCut applies a cut. It reports whether the Follower is at the step where it ends.
func (f *Follower) takeCut(c *stream.Cut) (done bool, err error) {
	if f.o.At >= 0 && c.Step > f.o.At {
		if f.model == nil {
			return false, fmt.Errorf("the topic has no model of step %d: the oldest is that of step %d", f.o.At, c.Step)
		}
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
	return true, f.reach()
}

// reach ends the Follower at its step.
func (f *Follower) reach() error {
	f.reached = true
	return f.save(true)
}

// Unproved is the error of a Follower that ends at the end of a topic whose newest model has no digest to compare with.
type Unproved struct {
	Step  int64
	Right int64 // the newest step that has one; -1: none has
}

func (e *Unproved) Error() string {
	if e.Right < 0 {
		return fmt.Sprintf("the model of step %d, the newest of the topic, has no digest to compare with, and there is none before it", e.Step)
	}
	return fmt.Sprintf("the model of step %d, the newest of the topic, has no digest to compare with; that of step %d has one",
		e.Step, e.Right)
}

// endAtEnd ends the Follower at the end that the topic had when it began.
func (f *Follower) endAtEnd() error {
	switch {
	case f.model == nil:
		return errors.New("the topic has no model yet: no commit of all ranks is in it")
	case f.o.At >= 0:
		return errors.Join(fmt.Errorf("the topic has no model of step %d: the newest is that of step %d", f.o.At, f.Step()), f.saveLast())
	case f.model.want == "":
		return &Unproved{f.Step(), f.right}
	}
	return f.reach()
}

// applyCut applies a cut to the model, and compares the digests.
func (f *Follower) applyCut(c *stream.Cut) error {
	first := c.Epochs[0]
	if f.model != nil && c.Lineage != f.model.at[0].Lineage {
		f.o.Warn(fmt.Sprintf("the run forked: lineage %s continues from step %d with other settings, and its model replaces that of step %d of lineage %s",
			c.Lineage.Short(), c.Step, f.model.step, f.model.at[0].Lineage.Short()))
	}
	if len(first.About) == 0 && (f.model == nil || c.Lineage != f.model.at[0].Lineage) {
		return &stream.Gap{Offset: first.Next - 1, Held: int64(f.Step()), Why: "the description of the run is missing"}
	}
	if f.model == nil || c.Lineage != f.model.at[0].Lineage {
		f.leaveRun()
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
