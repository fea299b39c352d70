package train

// redundancy is that of the step whose status all ranks have exchanged last.
func (r *rank) redundancy() (x Redundancy) {
	if !r.job.coded() {
		return x
	}
	layout := r.job.layout
	x.Groups, x.Survivable = layout.Groups(), layout.Parity
	for g := range x.Groups {
		group := layout.Group(g)
		spare := group.Parity
		for owner := group.First; owner < group.First+group.Size; owner++ {
			if r.conns.ctl.last[r.job.roles.first+owner].degraded {
				x.Rebuilding++
				spare--
			}
		}
		if spare <= 0 {
			x.NoSpare++
		}
		x.Survivable = min(x.Survivable, spare)
	}
	return x
}
