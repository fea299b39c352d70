package store

// HasBegun reports whether the log was begun at step 0, and as far as this rank knew no step was durable on all ranks since. If that
// holds for all ranks, and a log is empty, the job has lost no step that was durable: it ended before. It is called before Begin.
func (s *Store) HasBegun() bool { return s.begun }

// Settled is the newest step of which the log knows that it was durable on all ranks, 0 if there is none: the job never goes back before it. So
// the newest log of another rank does not end before it. It is called before Begin.
func (s *Store) Settled() int64 {
	if s.disk == nil {
		return 0
	}
	return max(0, s.disk.Settled()-1)
}

// noteBegun makes or removes the note of HasBegun, unless it is so.
func (s *Store) noteBegun(begun bool) error {
	if s.dir == nil || s.begun == begun {
		return nil
	}
	err := s.dir.SetBegun(begun)
	if err == nil {
		s.begun = begun
	}
	return err
}
