package commit

// owner is the machine of a rank that owns rows: it ends epochs, and keeps the pre-images
// that lead back to the last commit.
//
// Invariant: committed < sealed[0] < sealed[1] ... < waiting, as far as they exist, and at
// most maxSealed epochs are sealed.
type owner struct {
	committed int64
	sealed    []int64 // the last steps of epochs that are not committed, oldest first
	waiting   int64   // the last step of the epoch to seal as soon as there is room; 0: none
}

// maxSealed is the most epochs that are sealed and not committed. With the active epoch, a
// loss costs at most two.
const maxSealed = 1

// newestSealed is the step up to which all is sealed.
func (o *owner) newestSealed() int64 {
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
		if e.step <= o.newestSealed() || o.waiting != 0 {
			panic(unexpected(o, e))
		}
		o.waiting = e.step
		if len(o.sealed) == maxSealed {
			return []action{{meet, o.newestSealed()}}
		}
		return o.sealWaiting(nil)
	case decided:
		return o.sealWaiting(o.commitUpTo(e.step))
	case rolled:
		if e.step < o.committed {
			panic(unexpected(o, e))
		}
		do = append(o.commitUpTo(e.step), action{undo, e.step})
		if o.committed != e.step {
			panic(unexpected(o, e))
		}
		o.sealed, o.waiting = o.sealed[:0], 0
	default:
		panic(unexpected(o, e))
	}
	return do
}

// commitUpTo commits the sealed epochs up to a step.
func (o *owner) commitUpTo(step int64) (do []action) {
	for len(o.sealed) > 0 && o.sealed[0] <= step {
		o.committed = o.sealed[0]
		o.sealed = append(o.sealed[:0], o.sealed[1:]...)
		do = append(do, action{forget, o.committed})
	}
	return do
}

// sealWaiting appends the seal of the waiting epoch to do, if there is one and room for it.
func (o *owner) sealWaiting(do []action) []action {
	if o.waiting != 0 && len(o.sealed) < maxSealed {
		do = append(do, action{seal, o.waiting})
		o.sealed, o.waiting = append(o.sealed, o.waiting), 0
	}
	return do
}
