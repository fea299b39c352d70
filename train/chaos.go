package train

// Points are where faults can be injected into a step, or into what stands between
// steps, in the order in which a rank comes to them. The first is where a fault happens
// that names none. Those of a recovery count as at the step that the loss hit.
var Points = []string{
	"step", "fetch", "forward", "backward", "word", "seal", "push", "reduce", "decide",
	"evaluate", "checkpoint", "settle", "digest",
	"agree", "rollback", "dense", "survey", "rebuild",
}

// chaos is where a fault may be injected.
func (r *rank) chaos(step int64, point string) error {
	if r.job.o.Chaos == nil {
		return nil
	}
	return r.job.o.Chaos(r.id, step, point)
}
