package store

import "time"

// Streams are opened in the background: one that failed again, and that of a rank that replaces a lost one for the first time.

// OpenLater returns the store of a stream that its writer opens, so that the caller does not wait for a broker. Until the stream is
// open, sets are left out. It continues where readers hold the model of Begin and no set was left out; else all rows are sent.
func OpenLater(o Options) *Store {
	s := newStore(o)
	s.failed = true
	s.startWriter()
	return s
}

// Pauses before a stream that failed is opened again, in units of Options.Retry. All rows are sent then.
const (
	firstPause   = 10
	longestPause = 600
)

// mayReopen reports whether the log is a stream that failed, or is not open yet, and that another attempt may mend.
func (s *Store) mayReopen() bool {
	return s.failed && s.fresh == nil && s.o.Stream != nil && (s.log == nil || lastingError(s.log.Failed()) == nil)
}

// reopen waits, and then opens the stream again. It returns the next pause. The monitor is locked, and is free meanwhile.
func (s *Store) reopen(pause time.Duration) time.Duration {
	for until := s.o.Env.Now() + pause; s.o.Env.Now() < until && !s.closed; s.monitor.WaitUntil(until) {
		if s.ending { // it is tried at this pace until the job ends
			until = min(until, s.o.Env.Now()+s.o.Retry)
		}
	}
	if s.closed {
		return pause
	}
	s.monitor.Unlock()
	log, err := s.o.Stream()
	s.monitor.Lock()
	switch {
	case err == nil:
		s.fresh = log
	case s.log == nil:
		s.problem = err
	}
	s.monitor.Wake()
	return min(max(2*pause, firstPause*s.o.Retry), longestPause*s.o.Retry)
}

// takeOpened takes the stream of OpenLater at Begin, if it is open already.
func (s *Store) takeOpened() bool {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	if s.log != nil || s.fresh == nil {
		return false
	}
	s.log, s.fresh, s.failed, s.problem = s.fresh, nil, false, nil
	return true
}

// takeFresh continues with a stream that was opened again, if it was. All rows are sent, since it may lack any of them, unless it is opened
// for the first time and lacks none.
func (s *Store) takeFresh() bool {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	if s.fresh == nil {
		return false
	}
	to := int64(0)
	if c, ok := s.fresh.(continuer); ok && s.log == nil && !s.missed && c.Continues(s.begunAt) {
		to = logged(s.begunAt)
	}
	if err := s.fresh.CutTo(to); err != nil {
		s.problem = err
		s.fresh.Close()
		s.fresh = nil
		s.monitor.Wake() // the writer opens it again
		return false
	}
	if s.log != nil {
		s.log.Close()
	} else {
		s.problem = nil
	}
	s.log, s.fresh, s.failed, s.queue = s.fresh, nil, false, nil
	s.sealed, s.held, s.losses, s.all, s.allAfter = nil, nil, 0, to == 0, 0
	if to > 0 {
		s.durable = s.begunAt
		if s.o.Past != nil {
			s.losses = s.begunAt // a loss of each step is there
		}
	}
	return true
}

// endFor is how long the end of a job waits for a stream that cannot be written. A batch system kills a stopped run, whose model is not saved
// yet.
func (s *Store) endFor() time.Duration {
	if s.o.Stopped != nil && s.o.Stopped() {
		return s.o.Retry
	}
	return drainFor
}

// awaitReopening waits, at the end of a job, until a stream that failed or is not open yet is open.
func (s *Store) awaitReopening() {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	s.ending = true
	s.monitor.Wake()
	for until := s.o.Env.Now() + s.endFor(); s.mayReopen() && !s.closed && s.o.Env.Now() < until; {
		s.monitor.WaitUntil(until)
	}
	s.ending = false // another loss may follow
}
