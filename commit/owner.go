package commit

// owner is the machine of who owns rows: it ends epochs, and keeps what leads back to
// the last commit.
//
// Invariant: committed < sealed[0] < sealed[1] ... < waiting, where there are such, and at
// most maxSealed are sealed.
type owner struct {
	committed int64
	sealed    []int64 // the last steps of epochs that are not committed, oldest first
	waiting   int64   // that of the epoch to seal as soon as there is room; 0: none
}

// maxSealed bounds the epochs that are sealed and not committed: with the one under
// way two epochs at most would have to be redone.
const maxSealed = 1

// newest is the step up to which all is sealed.
func (o *owner) newest() int64 {
	if n := len(o.sealed); n > 0 {
		return o.sealed[n-1]
	}
	return o.committed
}

func (o *owner) step(e event) (do []action) {
	switch e.kind {
	case began:
		*o = owner{committed: e.step}
	case boundary:
		if e.step <= o.newest() || o.waiting != 0 {
			panic(unexpected(o, e))
		}
		o.waiting = e.step
		if len(o.sealed) == maxSealed {
			return []action{{meet, o.newest()}}
		}
		return o.seal(nil)
	case decided:
		return o.seal(o.commit(e.step))
	case rolled:
		if e.step < o.committed {
			panic(unexpected(o, e))
		}
		do = append(o.commit(e.step), action{undo, e.step})
		if o.committed != e.step {
			panic(unexpected(o, e))
		}
		o.sealed, o.waiting = o.sealed[:0], 0
	default:
		panic(unexpected(o, e))
	}
	return do
}

// commit goes forward to a step.
func (o *owner) commit(step int64) (do []action) {
	for len(o.sealed) > 0 && o.sealed[0] <= step {
		o.committed = o.sealed[0]
		o.sealed = append(o.sealed[:0], o.sealed[1:]...)
		do = append(do, action{forget, o.committed})
	}
	return do
}

// seal seals what waits for that, if there is room.
func (o *owner) seal(do []action) []action {
	if o.waiting != 0 && len(o.sealed) < maxSealed {
		do = append(do, action{seal, o.waiting})
		o.sealed, o.waiting = append(o.sealed, o.waiting), 0
	}
	return do
}
