package train

// Points are where faults can be injected, about in the order in which a rank comes to
// them: the training goroutine, or what runs beside it. The first is where a fault
// happens that names none. Those of a recovery count as at the step that the loss hit.
var Points = []string{
	// of a step
	"step", "plan", "planned", "fetch", "forward", "backward", "word", "push", "reduce", "update", "done", "decide",
	// of a commit: the seal of an epoch, its deltas on their way, and where all meet
	"between", "flush", "snapshot", "travelled", "deltas", "seal", "send", "counts", "slots", "staged", "prepared", "meet", "met",
	// between steps
	"evaluate", "scored", "checkpoint", "written", "saved", "settle", "digest", "count",
	// of a new world
	"join", "stand", "ready", "go",
	// of a recovery
	"agree", "rollback", "root", "dense", "surveyed", "survey", "rebuild", "ask", "answer", "install", "installed", "remains", "rest", "whole",
	"fall", "fallen",
}

// Calm is a point at the beginning of a step that is met only where all has been whole
// for some steps: faults that wait for it are apart. It is not among Points, whose faults come
// at any moment.
const Calm = "calm"

// calmSteps is for how many steps all has been whole at Calm.
const calmSteps = 50

// chaosBegins is where a fault may be injected at the beginning of a step.
func (r *rank) chaosBegins(step int64) error {
	if err := r.chaos(step, "step"); err != nil || r.rebuilding || r.healing.open || step <= r.wholeAt+calmSteps {
		return err
	}
	return r.chaos(step, Calm)
}

// chaos is where a fault may be injected.
func (r *rank) chaos(step int64, point string) error {
	if r.job.o.Chaos == nil {
		return nil
	}
	return r.job.o.Chaos(r.id, step, point)
}
