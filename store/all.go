package store

import (
	"errors"
	"time"
)

// All rows of a rank are written where the log lacks some: when a job begins with other rows than those of the log, and after lost rows are
// rebuilt.

// Complete writes all rows if the log lacks some when the job has ended with a step: a rank that replaces a lost one may have
// rebuilt its rows after the last seal, or its stream may be opened again after it.
func (s *Store) Complete(step int64) {
	s.awaitReopening()
	if s.isFailed() && !s.takeFresh() || !s.all || !s.isRebuilt() {
		return
	}
	s.idle()
	s.losses, s.all = 0, false
	if err := s.tryBegin(step, s.endFor()); err != nil {
		s.failAll(err)
	}
}

// tryBegin is beginWith, which is tried for some time if the log is a stream.
func (s *Store) tryBegin(step int64, most time.Duration) error {
	err := s.beginWith(step)
	for until := s.o.Env.Now() + most; s.o.Stream != nil && err != nil && s.log.Failed() == nil && s.o.Env.Now() < until; {
		s.o.Env.Sleep(s.o.Retry)
		err = s.beginWith(step)
	}
	return err
}

// beginFor is how long a stream that cannot be written delays the beginning of a job. Then all rows are written at a later seal.
const beginFor = 10 * time.Second

// beginWith begins the log with the present rows, which are committed.
func (s *Store) beginWith(step int64) error {
	if err := s.appendAll(step); err != nil {
		return err
	}
	e := s.newEpoch(step)
	if err := s.remember(e, step, func(b []byte) ([]byte, error) {
		dense, err := s.o.Dense()
		return append(b, dense...), err
	}); err != nil {
		return err
	}
	e.setDigest(s.o.Digest(step))
	if err := s.append(e, 0); err != nil {
		s.losses = 0 // another attempt writes them again
		return err
	}
	s.setDurable(step)
	s.setProblem(nil)
	return nil
}

// blockBytes is about how many bytes of rows are read at a time.
const blockBytes = 4 << 20

// appendAll appends all rows as they are, as parts of the epoch that ends with a step.
func (s *Store) appendAll(step int64) error {
	if s.uncut {
		if err := s.cutTo(0); err != nil {
			return err
		}
	}
	rowBytes := s.o.Shard.RowBytes()
	block := make([]byte, max(1, blockBytes/rowBytes)*rowBytes)
	touched := s.o.Shard.TouchedBits()
	var slots []int32
	for from := int64(0); ; {
		n, next, err := s.o.Shard.ReadTouched(block, from)
		if err != nil || n == 0 {
			return err
		}
		slots = slots[:0]
		for slot := from; slot < next; slot++ {
			if touched[slot>>6]>>(slot&63)&1 != 0 {
				slots = append(slots, int32(slot))
			}
		}
		if err := s.log.AppendPart(logged(step), slots, block[:n*rowBytes]); err != nil {
			return err
		}
		from = next
	}
}

// sealAll appends all rows as they are. If the epoch that ends now is not committed, that is in vain.
func (s *Store) sealAll() error {
	s.idle()
	s.all, s.losses, s.allAt = false, 0, s.step
	if e := s.held.takeAll(s.o.Shard.RowBytes(), s.release); e != nil {
		s.release(e) // newer rows are appended now
	}
	err := s.appendAll(s.step)
	if err == nil {
		s.setProblem(nil)
	}
	return err
}

// isUnanswered reports whether the log is a stream whose broker acknowledges nothing. All ranks would wait for it, until the
// attempt to send all rows ends.
func (s *Store) isUnanswered() bool {
	x, ok := s.log.(timed)
	if !ok || x.Unanswered() < s.o.Retry {
		return false
	}
	if s.Problem() == nil {
		s.setProblem(errors.New("the broker acknowledges nothing"))
	}
	return true
}

// allPause is how long training continues until a log that did not take all rows is tried again, for which it waits.
const allPause = time.Minute

// failAll notes that not all rows could be appended. They are tried again at a later seal, unless that would not help.
func (s *Store) failAll(err error) {
	lasts := s.log.Failed() != nil
	if s.disk != nil && !s.uncut {
		lasts = s.disk.DropParts() != nil || IsDamage(err)
	}
	if lasts {
		s.fail(err)
		return
	}
	s.all, s.allAfter = true, s.o.Env.Now()+allPause
	s.setProblem(err)
}
