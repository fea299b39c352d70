package commit

// decision is the machine that decides commits: the step up to which all ranks are prepared,
// by their status of a step. All ranks have the same status, so all decide the same.
type decision struct {
	reported  []int64 // by rank, the step that it is prepared for; -1: not reported yet
	missing   int     // ranks that have not reported yet
	committed int64
}

func (d *decision) step(e event) []action {
	switch e.kind {
	case began, rolled:
		*d = decision{reported: d.reported[:0], committed: e.step}
	case status:
		if d.missing == 0 {
			panic(unexpected(d, e))
		}
		if d.reported[e.rank] < 0 {
			d.missing--
		}
		d.reported[e.rank] = e.step
		if d.missing > 0 {
			return nil
		}
		least := d.reported[0]
		for _, prepared := range d.reported {
			least = min(least, prepared)
		}
		if least > d.committed {
			d.committed = least
			return []action{{decide, least}}
		}
	case decided: // without a status
		d.committed = max(d.committed, e.step)
	default:
		panic(unexpected(d, e))
	}
	return nil
}

// expectRanks expects the status of each rank for one step.
func (d *decision) expectRanks(ranks int) {
	d.reported, d.missing = resize(d.reported, ranks), ranks
	for r := range d.reported {
		d.reported[r] = -1
	}
}
