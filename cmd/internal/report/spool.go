package report

import (
	"io"
	"sync"
	"time"
)

// Spool is a Writer before a reader that may have stopped, such as a killed srun. Write never
// waits. Text that exceeds the buffer is left out.
type Spool struct {
	w io.Writer

	mu      sync.Mutex
	changed sync.Cond
	waiting []byte // not yet taken by drain
	writing bool
}

// spoolBytes is the size of the buffer.
const spoolBytes = 1 << 20

// NewSpool returns a Spool that writes to w for the life of the process.
func NewSpool(w io.Writer) *Spool {
	s := &Spool{w: w}
	s.changed.L = &s.mu
	go s.drain()
	return s
}

// Write implements io.Writer. It never fails.
func (s *Spool) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting)+len(p) <= spoolBytes {
		s.waiting = append(s.waiting, p...)
		s.changed.Broadcast()
	}
	return len(p), nil
}

func (s *Spool) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.waiting) == 0 {
			s.changed.Wait()
		}
		p := s.waiting
		s.waiting, s.writing = nil, true
		s.mu.Unlock()
		_, _ = s.w.Write(p) // there is no place to report an error
		s.mu.Lock()
		s.writing = false
		s.changed.Broadcast()
	}
}

// Flush waits until the buffer is written, at most for limit.
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
