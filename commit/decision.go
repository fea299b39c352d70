package commit

// decision is the machine that finds what is committed: up to which step all ranks are
// prepared, as the words of a step say. All ranks see the same words, so all decide alike.
type decision struct {
	heard     []int64 // by rank, -1: not yet
	left      int     // to hear
	committed int64
}

func (d *decision) step(e event) []action {
	switch e.kind {
	case began, rolled:
		*d = decision{heard: d.heard[:0], committed: e.step}
	case word:
		if d.left == 0 {
			panic(unexpected(d, e))
		}
		if d.heard[e.rank] < 0 {
			d.left--
		}
		d.heard[e.rank] = e.step
		if d.left > 0 {
			return nil
		}
		least := d.heard[0]
		for _, prepared := range d.heard {
			least = min(least, prepared)
		}
		if least > d.committed {
			d.committed = least
			return []action{{decide, least}}
		}
	case decided: // without words
		d.committed = max(d.committed, e.step)
	default:
		panic(unexpected(d, e))
	}
	return nil
}

// listen begins to hear the words of a step, of so many ranks.
func (d *decision) listen(ranks int) {
	d.heard, d.left = resize(d.heard, ranks), ranks
	for r := range d.heard {
		d.heard[r] = -1
	}
}
