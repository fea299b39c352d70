package commit

// holder is the machine of a rank that holds parities: it stages the deltas of an epoch, and
// folds them into its parities when all ranks have staged theirs.
//
// Invariant: staged epochs are older than those under way.
type holder struct {
	prepared int64   // every epoch up to this step is staged, or folded
	epochs   []int64 // the last steps of the epochs that are not folded, oldest first
}

func (h *holder) step(e event) (do []action) {
	switch e.kind {
	case began:
		*h = holder{prepared: e.step}
	case sealed:
		h.epochs = append(h.epochs, e.step)
		return []action{{stage, e.step}}
	case staged:
		if e.step <= h.prepared || len(h.epochs) == 0 || e.step > h.epochs[len(h.epochs)-1] {
			panic(unexpected(h, e))
		}
		h.prepared = e.step
	case decided:
		return h.foldUpTo(e.step)
	case rolled:
		if e.step > h.prepared {
			panic(unexpected(h, e))
		}
		do = h.foldUpTo(e.step)
		for _, step := range h.epochs {
			do = append(do, action{drop, step})
		}
		*h = holder{prepared: e.step, epochs: h.epochs[:0]}
	default:
		panic(unexpected(h, e))
	}
	return do
}

// foldUpTo folds the prepared epochs up to a step.
func (h *holder) foldUpTo(step int64) (do []action) {
	for len(h.epochs) > 0 && h.epochs[0] <= min(step, h.prepared) {
		do = append(do, action{fold, h.epochs[0]})
		h.epochs = append(h.epochs[:0], h.epochs[1:]...)
	}
	return do
}
