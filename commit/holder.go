package commit

// holder is the machine of who holds parities: it stages the deltas of epochs, and adds
// them to its parities when all ranks have theirs.
//
// Invariant: what is staged comes before what is under way.
type holder struct {
	prepared int64   // all up to this step is staged, or in the parities
	epochs   []int64 // the last steps of those that are not in the parities, oldest first
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
		return h.fold(e.step)
	case rolled:
		if e.step > h.prepared {
			panic(unexpected(h, e))
		}
		do = h.fold(e.step)
		for _, step := range h.epochs {
			do = append(do, action{drop, step})
		}
		*h = holder{prepared: e.step, epochs: h.epochs[:0]}
	default:
		panic(unexpected(h, e))
	}
	return do
}

// fold goes forward to a step.
func (h *holder) fold(step int64) (do []action) {
	for len(h.epochs) > 0 && h.epochs[0] <= min(step, h.prepared) {
		do = append(do, action{fold, h.epochs[0]})
		h.epochs = append(h.epochs[:0], h.epochs[1:]...)
	}
	return do
}
