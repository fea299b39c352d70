package store

// HasBegun reports whether the log was begun at step 0, and as far as this rank knew no step was durable on all ranks since. If that
// holds for all ranks, and a log is empty, the job has lost no step that was durable: it ended before. It is called before Begin.
func (s *Store) HasBegun() bool { return s.begun }

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
