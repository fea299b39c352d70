package sim

import "github.com/ecrec/ecrec/internal/probe"

// evaluated is the last evaluation of a job, once all ranks have it in their history. A world that is rolled back to its
// step must not repeat it: the job would report it twice, and take its time again.
type evaluated struct {
	step int64
	in   uint64 // the world in which all ranks got it; 0: no evaluation is known
	// rolled is the last world that was rolled back to a commit.
	rolled uint64
}

// checkEvals is the part of checkPoint about evaluations.
func (c *cluster) checkEvals(w *world, step int64, point probe.Point) {
	x := &c.evaluated
	switch point {
	case probe.Count: // the digest is summed, so that all ranks have evaluated and committed
		if w.generation == c.register.world.generation {
			x.step, x.in = step, w.generation
		}
	case probe.Restored:
		x.in = 0
	case probe.Rollback:
		x.rolled = w.generation
	case probe.Start:
		if w.generation > x.in && (x.rolled != w.generation || step != x.step) {
			x.in = 0 // the world begins with another history
		}
	case probe.Evaluate:
		if x.in > 0 && w.generation > x.in && step == x.step {
			c.failRun("world %d repeats the evaluation after step %d, which all ranks had in world %d", w.generation, step, x.in)
		}
	}
}
