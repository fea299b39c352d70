package store

// heldEpochs are committed epochs that are written as one, with the next one that is not held; oldest first. Each has more than twice the
// rows of the one after it. So a row is copied a few times only, however long they are held, and all have less than twice the distinct rows.
type heldEpochs []*epoch

// addEpoch adds the newest epoch, and merges those that have become too similar in size. release takes an epoch that is not used any more.
func (h *heldEpochs) addEpoch(e *epoch, rowBytes int, release func(*epoch)) {
	*h = append(*h, e)
	for n := len(*h); n > 1 && 2*len((*h)[n-1].slots) >= len((*h)[n-2].slots); n-- {
		h.mergeNewest(rowBytes, release)
	}
}

// takeAll returns all of them as one, nil if there are none.
func (h *heldEpochs) takeAll(rowBytes int, release func(*epoch)) *epoch {
	if len(*h) == 0 {
		return nil
	}
	for len(*h) > 1 {
		h.mergeNewest(rowBytes, release)
	}
	e := (*h)[0]
	*h = nil
	return e
}

// mergeNewest merges the two newest.
func (h *heldEpochs) mergeNewest(rowBytes int, release func(*epoch)) {
	n := len(*h)
	older, newer := (*h)[n-2], (*h)[n-1]
	newer.mergeOlder(older, rowBytes)
	release(older)
	*h = append((*h)[:n-2], newer)
}
