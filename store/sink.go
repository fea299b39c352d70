package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ecrec/ecrec/commit"
	"github.com/ecrec/ecrec/rowlog"
)

// NeedsPreImages implements commit.Sink.
func (s *Store) NeedsPreImages() bool { return false }

// Lose says that the rank has none of its rows when Begin is called, and rebuilds them afterwards.
func (s *Store) Lose() { s.lost = true }

// Pause leaves out the sets that are sealed from now on, or takes them again from the next Begin on. It is for measurements: no log
// has what was left out.
func (s *Store) Pause(paused bool) { s.paused = paused }

// Begin implements commit.Sink. If the rows are not those of Restore, the log begins anew with them.
func (s *Store) Begin(step int64, drawn bool) {
	s.idle()
	s.sealed, s.held, s.step, s.hold, s.allAt = nil, nil, step, false, 0
	restored, lost := s.restored, s.lost
	s.restored, s.lost = 0, false
	s.begunAt, s.missed = step, false
	if s.isFailed() && !s.takeOpened() {
		return
	}
	if restored == step && restored > 0 && s.log.Step() == logged(step) {
		s.setDurable(step)
		s.all = false
		_ = s.noteBegun(false) // append tries again
		return
	}
	if c, ok := s.log.(continuer); ok && c.Continues(step) {
		s.all, s.losses = false, step // a loss of each step is there
		if s.o.Past == nil {
			s.losses = 0
		}
		if err := s.cutTo(logged(step)); err != nil {
			s.fail(err)
		}
		s.setDurable(step)
		return
	}
	s.losses, s.all = 0, lost
	to := int64(0)
	if lost { // its log may serve until all rows are written
		to = s.log.StepUpTo(logged(step))
	}
	err := s.cutTo(to)
	if s.uncut {
		to = 0
	}
	s.setDurable(max(0, to-1))
	if err == nil && !lost {
		// Without the note an empty log counts as a lost one; one that stays is removed by append.
		_ = s.noteBegun(step == 0)
	}
	if err == nil && !drawn && !lost {
		err = s.tryBegin(step, beginFor)
	}
	if err != nil {
		s.failAll(err)
	}
}

// cutTo cuts the log. If a disk fails, it is tried again before rows are written.
func (s *Store) cutTo(step int64) error {
	err := s.log.CutTo(step)
	s.uncut = err != nil && s.disk != nil
	return err
}

func (s *Store) isRebuilt() bool { return s.o.Rebuilt == nil || s.o.Rebuilt() }

func (s *Store) isFailed() bool {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	return s.failed
}

// Failed returns the reason if the log takes nothing more, in this process.
func (s *Store) Failed() error {
	if s.isFailed() {
		return s.Problem()
	}
	return nil
}

// fail ends the use of the log, unless err is nil.
func (s *Store) fail(err error) {
	if err == nil {
		return
	}
	s.monitor.Lock()
	defer s.monitor.Unlock()
	s.problem, s.failed, s.queue = err, true, nil
	s.monitor.Wake()
}

func (s *Store) setDurable(step int64) {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	s.durable, s.settled = step, 0
}

// setProblem sets why nothing becomes durable, nil if all is well.
func (s *Store) setProblem(err error) {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	s.problem = err
}

// remember adds the run's past to an epoch, on the first rank, and the dense part, which dense appends.
func (s *Store) remember(e *epoch, step int64, dense func([]byte) ([]byte, error)) error {
	if s.o.Past == nil {
		return nil
	}
	past, err := s.o.Past(step)
	if err != nil {
		return err
	}
	losses := past.Losses[:min(step, int64(len(past.Losses)))]
	e.setExtra(past.Record, int64(len(losses)))
	if e.extra, err = dense(e.extra); err != nil {
		return err
	}
	s.addLosses(e, losses)
	return nil
}

// WillTake implements commit.Taker.
func (s *Store) WillTake() bool { return !s.paused && !s.all && !s.isFailed() }

// Seal implements commit.Sink.
func (s *Store) Seal(set *commit.Set) error {
	s.step = set.Step
	if s.paused || s.isFailed() && !s.takeFresh() {
		s.missed = true
		return nil
	}
	if s.all && (!s.isRebuilt() || s.o.Env.Now() < s.allAfter || s.isUnanswered()) {
		return nil
	}
	e := s.newEpoch(set.Step)
	switch {
	case s.all:
		if err := s.sealAll(); err != nil {
			s.failAll(err)
			return nil
		}
	default:
		e.held = s.hold
		e.slots = append(e.slots, set.Slots...)
		var err error
		if e.rows, err = set.TakeRows(e.rows); err != nil {
			return err
		}
	}
	if err := s.remember(e, set.Step, set.Dense); err != nil {
		return err
	}
	s.sealed = append(s.sealed, e)
	return nil
}

// Wait implements commit.Sink. A set is prepared once it is copied, so there is nothing to wait for.
func (s *Store) Wait() error { return nil }

// Prepared implements commit.Sink.
func (s *Store) Prepared() int64 { return s.step }

// Commit implements commit.Sink.
func (s *Store) Commit(step int64) {
	for len(s.sealed) > 0 && s.sealed[0].step <= step {
		e := s.sealed[0]
		s.sealed = append(s.sealed[:0], s.sealed[1:]...)
		e.setDigest(s.o.Digest(e.step))
		if s.held.addEpoch(e, s.o.Shard.RowBytes(), s.release); !e.held {
			s.Flush()
		}
	}
}

// Flush queues the epochs that are held, as one, if there are any. All ranks call it after the same commit.
func (s *Store) Flush() {
	e := s.held.takeAll(s.o.Shard.RowBytes(), s.release)
	if e == nil {
		return
	}
	s.monitor.Lock()
	defer s.monitor.Unlock()
	if !s.failed {
		s.queue = append(s.queue, e)
		s.monitor.Wake()
	}
}

// Roll implements commit.Sink.
func (s *Store) Roll(step int64) {
	s.Commit(step)
	s.sealed, s.step = nil, step
	s.all = s.all || s.allAt > step
	s.losses = min(s.losses, step)
}

// newEpoch returns an empty epoch.
func (s *Store) newEpoch(step int64) *epoch {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	e := new(epoch)
	if n := len(s.spare); n > 0 {
		e, s.spare = s.spare[n-1], s.spare[:n-1]
	}
	e.step, e.mark = step, s.o.Shard.Mark()
	return e
}

func (s *Store) release(e *epoch) {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	s.spare = addSpare(s.spare, e)
}

// adopt passes the slots of the rows in the log to put, and reads the losses. Their slots begin with first.
func (s *Store) adopt(first int32, losses []byte, put func(slots []int32, rows []byte) error) error {
	if err := put(s.disk.Slots(0, first), nil); err != nil {
		return err
	}
	n := int32(len(losses) / s.o.Shard.RowBytes())
	return s.disk.Read(s.disk.Slots(first, first+n), losses)
}

// IsForeign reports whether an error of Open is of the log of another run.
func IsForeign(err error) bool { return errors.As(err, new(*rowlog.Foreign)) }

// IsDamage reports whether an error of Restore is of bytes that differ from the written ones. Others are of the disk.
func IsDamage(err error) bool { return errors.As(err, new(*rowlog.Corrupt)) }

// Restore cuts the log to the model after a step, which it holds, and passes its rows to put. If the log is where rows
// without a frame are (Below), their bytes are nil. It returns the run's past, the dense part and the digest of the
// model, empty if that is unknown. Begin follows with the same step. Only the first rank has past and dense part.
func (s *Store) Restore(step int64, put func(slots []int32, rows []byte) error) (past Past, dense []byte, digest string, err error) {
	s.idle()
	if err := s.cutTo(logged(step)); err != nil {
		return past, nil, "", err
	}
	var losses []byte
	count, rowBytes := int64(0), s.o.Shard.RowBytes()
	if s.o.Past != nil {
		extra, err := s.disk.Extra()
		if err != nil {
			return past, nil, "", err
		}
		if past.Record, dense, digest, count, err = readExtra(extra); err == nil && (count < 0 || count > step) {
			err = fmt.Errorf("%d losses of %d steps", count, step)
		}
		if err != nil {
			return past, nil, "", err
		}
		losses = make([]byte, (8*count+int64(rowBytes)-1)/int64(rowBytes)*int64(rowBytes))
	}
	first := int32(s.slots())
	if s.below != nil {
		err = s.adopt(first, losses, put)
	} else {
		err = s.disk.Each(func(slots []int32, rows []byte) error {
			n, _ := slices.BinarySearch(slots, first)
			for i, slot := range slots[n:] {
				if at := int(slot-first) * rowBytes; at < len(losses) { // those of later steps were cut off
					copy(losses[at:], rows[(n+i)*rowBytes:(n+i+1)*rowBytes])
				}
			}
			return put(slots[:n], rows[:n*rowBytes])
		})
	}
	if err != nil {
		return past, nil, "", err
	}
	s.restored, s.losses = step, count
	past.Losses = lossesOf(losses)[:count]
	return past, dense, digest, nil
}
