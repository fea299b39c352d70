package checkpoint

// Consolidate writes the full checkpoint of an increment to a folder dir. It is the same, byte for byte, as if it had
// been saved as a full one.
func (c *Checkpoint) Consolidate(dir string) (path string, err error) {
	s := Save{Env: c.env, Dir: dir, Step: c.Step, Ranks: c.Ranks, Model: c.Model, Run: c.Run}
	if err := s.Begin(); err != nil {
		return "", err
	}
	if err := c.copyTo(&s); err != nil {
		_ = s.Abort() // err is the reason
		return "", err
	}
	return s.Path(), nil
}

// copyTo saves the rows and files of c.
func (c *Checkpoint) copyTo(s *Save) error {
	history, err := c.ReadHistory()
	if err != nil {
		return err
	}
	if s.Recipe, err = c.ReadRecipe(); err != nil {
		return err
	}
	dense, err := c.readAllDense()
	if err != nil {
		return err
	}
	weights := c.Model.denseBytes()
	part, err := s.WriteDense(dense[:weights], dense[weights:])
	if err != nil {
		return err
	}
	parts := []Part{part}
	for rank := range c.Ranks {
		part, err := c.copyRows(s, rank)
		if err != nil {
			return err
		}
		parts = append(parts, part)
	}
	return s.Commit(parts, c.Digest, history)
}

func (c *Checkpoint) copyRows(s *Save, rank int) (Part, error) {
	r, err := c.openRows(rank)
	if err != nil {
		return Part{}, err
	}
	defer r.closeReader()
	m := &mergedRows{cursor{rowReader: r, rowBytes: c.Model.rowBytes()}}
	part, err := s.WriteRows(rank, m)
	if err == nil {
		err = m.refill() // at the end the sums are checked
	}
	return part, err
}

// mergedRows is a RowSource that is read once, from its beginning to its end.
type mergedRows struct{ cursor }

func (m *mergedRows) TouchedBits() []uint64 { return m.touchedBits() }

func (m *mergedRows) ReadTouched(dst []byte, from int64) (rows int, next int64, err error) {
	next = from
	for room := len(dst) / m.rowBytes; room > 0; {
		if err := m.refill(); err != nil || m.ended {
			return rows, next, err
		}
		n := min(room, len(m.ahead))
		copy(dst[rows*m.rowBytes:], m.rows[:n*m.rowBytes])
		rows, room, next = rows+n, room-n, int64(m.ahead[n-1])+1
		m.drop(n)
	}
	return rows, next, nil
}
