package report

import (
	"io"
	"sync"
	"time"
)

// Spool writes for somebody who may have stopped reading, as srun has that was killed: who
// writes to it never waits. What has no room any more is left out.
type Spool struct {
	w io.Writer

	mu      sync.Mutex
	changed sync.Cond
	waiting []byte // not taken yet by write
	writing bool
}

// spoolBytes is how much waits to be written at most.
const spoolBytes = 1 << 20

// NewSpool begins to write to w what is written to it, for as long as the process lives.
func NewSpool(w io.Writer) *Spool {
	s := &Spool{w: w}
	s.changed.L = &s.mu
	go s.write()
	return s
}

// Write implements io.Writer; it has no error.
func (s *Spool) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting)+len(p) <= spoolBytes {
		s.waiting = append(s.waiting, p...)
		s.changed.Broadcast()
	}
	return len(p), nil
}

func (s *Spool) write() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.waiting) == 0 {
			s.changed.Wait()
		}
		p := s.waiting
		s.waiting, s.writing = nil, true
		s.mu.Unlock()
		_, _ = s.w.Write(p) // nobody could be told
		s.mu.Lock()
		s.writing = false
		s.changed.Broadcast()
	}
}

// Flush waits until all is written, but not for longer than limit.
func (s *Spool) Flush(limit time.Duration) {
	late := false
	timer := time.AfterFunc(limit, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		late = true
		s.changed.Broadcast()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for (len(s.waiting) > 0 || s.writing) && !late {
		s.changed.Wait()
	}
}
