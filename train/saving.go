package train

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/probe"
	"github.com/ecrec/ecrec/kernels"
	"github.com/ecrec/ecrec/shard"
)

// A save beside training. At its step the ranks pin their rows and copy the rest. Then they write, while
// training continues. Each goes through the same stages, and does the work of a stage in the background,
// except that the rank's own goroutine copies rows, between two steps and a few at a time. The status
// of each step reports which ranks have done the work of the stage, or failed. When all have, all ranks
// enter the next stage after that same step; when one has failed, all give up. A save that training waits for goes
// through the same stages, without steps in between.

// stage is a stage of a save.
type stage int

const (
	stageClear   stage = iota // files of a save that was given up are removed
	stageMake                 // rank 0 makes the folder
	stageWrite                // each rank writes its files
	stagePublish              // rank 0 gives the checkpoint its name
)

// saving is a checkpoint that is being saved beside training.
type saving struct {
	request saveRequest
	save    *checkpoint.Save
	stage   stage
	late    bool // another save was due meanwhile

	work *env.Event // this rank's work of the stage, in the background; nil: none is under way
	err  error      // of this rank

	began          time.Duration
	weights, state []byte          // the dense part, on rank 0
	dense, part    checkpoint.Part // that are written
	count          int64           // rows, of all ranks
	pin            *shard.Pin      // this rank's rows until all are copied; nil: there are none
	rows           *checkpoint.RowWriter
	pace           pace
}

// begin begins to save the model of a step. Every update is done, and all ranks call it. No other save is
// under way.
func (k *checkpointer) begin(q saveRequest, c *control) error {
	if err := k.probe.Reach(q.step, probe.Checkpoint); err != nil {
		return err
	}
	k.lastSave = k.part.env.Now()
	run, past := *q.run, q.history.clone(q.step)
	q.run, q.history = &run, &past
	s := &saving{request: q, save: k.newSave(q), began: k.lastSave}
	isIncrement, err := k.agreeOnIncrement(q.step, c)
	if err != nil {
		return err
	}
	if isIncrement {
		if s.save.Parent = k.increments.parent; k.id != 0 {
			s.save.Parent = &checkpoint.Parent{}
		}
	}
	if k.id == 0 {
		weights, state, err := k.part.downloadDense()
		s.weights, s.state, s.err = kernels.BytesOf(weights), state, err
	}
	if k.topology.roles.ownerOf(k.id) >= 0 {
		if isIncrement {
			s.pin = k.part.shard.PinWritten()
		} else {
			s.pin = k.part.shard.Pin()
		}
	}
	s.work = k.leaving
	k.saving, k.again = s, 0
	return nil
}

// agreeOnIncrement reports whether the checkpoint of a step is an increment: that takes all ranks.
func (k *checkpointer) agreeOnIncrement(step int64, c *control) (bool, error) {
	if !k.increments.isOn {
		return false, nil
	}
	isNext := k.increments.isNext(k.id, step)
	if isNext && k.id == 0 { // its parents may have been removed since
		isNext = k.increments.parent.Check(k.part.env, k.topology.cfg.Checkpoint.Dir) == nil
	}
	mine := uint64(0)
	if isNext {
		mine = 1
	}
	all, err := c.gather([]uint64{mine})
	return err == nil && !slices.ContainsFunc(all, func(m []uint64) bool { return m[0] == 0 }), err
}

// addTo sets the fields of a status that are about saves.
func (k *checkpointer) addTo(m *status, step int64, rebuilding bool) {
	m.save = k.isTimeDue() || k.again > 0 && step >= k.again && !rebuilding
	if s := k.saving; s != nil {
		s.endWork()
		m.unsaved = s.err != nil
		m.saved = !m.unsaved && s.work == nil && s.rows == nil
	}
}

// endWork takes the result of work in the background that has ended.
func (s *saving) endWork() {
	if s.work != nil && s.work.Done() {
		if err := s.work.Wait(); s.err == nil {
			s.err = err
		}
		s.work = nil
	}
}

func (s *saving) awaitWork() {
	if s.work != nil {
		_ = s.work.Wait() // endWork takes the error
		s.endWork()
	}
}

// start starts this rank's work of a stage in the background.
func (k *checkpointer) start(s *saving, what string, work func() error) {
	s.work = k.inBackground(what, work)
}

func (k *checkpointer) inBackground(what string, work func() error) *env.Event {
	e := env.NewEvent(k.part.env, what)
	k.part.env.Go(what, func() { e.Set(work()) })
	return e
}

// proceed continues the save under way after a step. d follows from the status of all ranks. It returns the
// step of a checkpoint that is complete now, 0 if there is none.
func (k *checkpointer) proceed(d decision, took time.Duration, c *control) (saved int64, err error) {
	s := k.saving
	switch {
	case s == nil:
		return 0, nil
	case d.unsaved:
		if _, err = c.agree(s.err, nil); !errors.As(err, new(*failedSave)) {
			return 0, err
		}
		k.abandon()
		if s.request.last {
			return 0, err
		}
		k.report(s, err)
		err = nil
	case d.saved && s.stage == stagePublish:
		if err = k.probe.Reach(s.save.Step, probe.Saved); err != nil {
			return 0, err
		}
		k.saving = nil
		k.part.shard.EndSave(false)
		if k.increments.follows = true; k.id == 0 {
			k.increments.saved(s.save, s.count)
		}
		k.report(s, nil)
		return s.save.Step, nil
	case d.saved:
		return 0, k.enterNext(s, c)
	default:
		k.copyRows(s, took)
	}
	return 0, err
}

// finish ends the save under way, if there is one, while training waits. It returns the step of the
// checkpoint, 0 if it failed.
func (k *checkpointer) finish(c *control) (saved int64, err error) {
	for k.saving != nil && err == nil {
		s := k.saving
		s.awaitWork()
		for s.rows != nil && s.err == nil {
			if s.rows.Left() == 0 {
				k.closeRows(s)
				s.awaitWork()
			} else {
				_, s.err = s.rows.Copy(s.rows.Left())
			}
		}
		failed := uint64(0)
		if s.err != nil {
			failed = 1
		}
		var all [][]uint64
		if all, err = c.gather([]uint64{failed}); err == nil {
			d := decision{saved: true, unsaved: slices.ContainsFunc(all, func(x []uint64) bool { return x[0] != 0 })}
			saved, err = k.proceed(d, 0, c)
		}
	}
	return saved, err
}

// report reports a save on rank 0.
func (k *checkpointer) report(s *saving, err error) {
	if k.id != 0 {
		return
	}
	k.reported(s.save.Step, s.save.Path(), err)
	if left := s.save.NotRemoved(); left != nil {
		k.warnOnce(warnLeftovers, fmt.Sprintf("checkpoint.dir: an old checkpoint cannot be removed: %v; training continues, and each "+
			"save tries again; free its files, or remove them yourself", left))
	}
}

// enterNext enters the next stage, in which some ranks have nothing to do.
func (k *checkpointer) enterNext(s *saving, c *control) error {
	s.stage++
	switch s.stage {
	case stageMake:
		k.leaving = nil
		if k.id == 0 {
			k.start(s, "make checkpoint", func() error { return k.makeFolder(s.save) })
		}
	case stageWrite:
		if k.id == 0 || s.pin != nil {
			pin := s.pin
			k.start(s, "open checkpoint", func() error { return k.openFiles(s, pin) })
		}
	case stagePublish:
		if err := k.probe.Reach(s.save.Step, probe.Written); err != nil {
			return err
		}
		all, err := c.gather(append(s.part.Words(), s.dense.Words()...))
		if err != nil {
			return err
		}
		for _, x := range all {
			s.count += checkpoint.PartOf(x).Rows
		}
		if k.id == 0 {
			k.start(s, "publish checkpoint", func() error { return k.publishFiles(s.save, all, s.request) })
		}
	}
	return nil
}

// openFiles writes the dense part, on rank 0, and creates the file of rows.
func (k *checkpointer) openFiles(s *saving, pin *shard.Pin) (err error) {
	if k.id == 0 {
		if s.dense, err = s.save.WriteDense(s.weights, s.state); err != nil {
			return err
		}
	}
	if pin != nil {
		s.rows, err = s.save.OpenRows(k.topology.roles.ownerOf(k.id), pin)
	}
	return err
}

// copyRows copies some rows after a step that took some time.
func (k *checkpointer) copyRows(s *saving, step time.Duration) {
	s.endWork()
	if s.work != nil || s.rows == nil || s.err != nil {
		return
	}
	began := k.part.env.Now()
	if s.pace.bound == 0 {
		s.pace.bound = 1 + int64(asideShare*float64(s.rows.Left()))
	}
	left, wait := s.pace.next(step, k.patience(s, step), s.rows.Left(), s.pin.Bytes())
	if k.rowsPerStep > 0 {
		left, wait = int64(k.rowsPerStep*k.part.shard.RowBytes()), false
	}
	done := int64(0)
	for done < left && s.rows.Left() > 0 && s.err == nil && (wait || s.rows.IsReady()) {
		var n int64
		n, s.err = s.rows.Copy(left - done)
		done += n
	}
	s.pace.spent(step, done, k.part.env.Now()-began)
	if s.rows.Left() == 0 && s.err == nil {
		k.closeRows(s)
	}
}

// patience is the time within which the copies of a save should end: half of the time between two checkpoints.
func (k *checkpointer) patience(s *saving, step time.Duration) time.Duration {
	every := k.topology.cfg.Checkpoint.Every
	all := every.Time
	if every.Steps > 0 {
		all = time.Duration(every.Steps) * step
	}
	if all == 0 {
		return math.MaxInt64
	}
	return all/2 - (k.part.env.Now() - s.began)
}

// closeRows starts to make the rows durable, all of which are copied.
func (k *checkpointer) closeRows(s *saving) {
	s.unpin()
	rows := s.rows
	s.rows = nil
	k.start(s, "write checkpoint", func() (err error) {
		s.part, err = rows.Close()
		return err
	})
}

func (s *saving) unpin() {
	if s.pin != nil {
		s.pin.Close()
		s.pin = nil
	}
}

// abandon gives the save under way up, if there is one. Its files are removed in the background. No
// goroutine moves rows.
func (k *checkpointer) abandon() {
	s := k.saving
	if s == nil {
		return
	}
	k.saving = nil
	s.unpin()
	k.part.shard.EndSave(true)
	work := s.work
	k.leaving = k.inBackground("abandon checkpoint", func() error {
		if work != nil {
			_ = work.Wait() // the save is given up
		}
		if s.rows != nil {
			s.rows.Abort()
		}
		if k.id == 0 && s.stage > stageClear {
			_ = s.save.Abort() // else the next save removes the rest
		}
		return nil
	})
}

// lose gives the save under way up because its world has ended. It is taken again once the job has trained
// its step in a later world, in which the first save is full.
func (k *checkpointer) lose() {
	k.increments.follows = false
	if k.saving != nil {
		k.again = k.saving.save.Step
		k.abandon()
	}
}

// closeSaves ends the work in the background, and releases the lock.
func (k *checkpointer) closeSaves() {
	k.abandon()
	if k.leaving != nil {
		_ = k.leaving.Wait()
	}
	k.lock.Close()
}

// horizon is the earlier of a step and that of the save under way, to which a run may go back.
func (k *checkpointer) horizon(step int64) int64 {
	if k.saving != nil {
		return min(step, k.saving.save.Step)
	}
	return step
}

// clone is a copy that the steps to come do not change.
func (h *history) clone(step int64) history {
	return history{Input: h.Input.upTo(step), TrainLoss: slices.Clone(h.TrainLoss), Eval: slices.Clone(h.Eval), Kept: slices.Clone(h.Kept),
		Recoveries: slices.Clone(h.Recoveries)}
}
