package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ecrec/ecrec/commit"
)

// auditor checks what all owners hold whenever an epoch is sealed, and where they begin to
// rebuild: that is as of one commit, every parity is the encoding of its rows, and nothing has grown too large.
type auditor struct {
	c      *cluster
	given  map[sealed][]*commit.Audit
	checks int
	err    error // the first
}

// sealed is an epoch of a world.
type sealed struct {
	generation uint64
	step       int64
}

// hook is a process's Options.Audit.
func (a *auditor) hook(p *process) func(int64, *commit.Audit) {
	return func(step int64, x *commit.Audit) {
		if p.dead || p.fenced() {
			return
		}
		a.bounds()
		if !x.Left.Any() {
			a.c.faults.lost.hasRows(a.c.faults.lost.first+x.Owner, p.at.generation)
		}
		at := sealed{p.at.generation, step}
		all := append(a.given[at], x)
		a.given[at] = all
		if len(all) < x.Owners() {
			return
		}
		delete(a.given, at)
		slices.SortFunc(all, func(x, y *commit.Audit) int { return x.Owner - y.Owner })
		a.checks++
		a.fail(commit.CheckAudits(all))
	}
}

// maxTasks bounds the goroutines of a rank, by how many ranks there are: those of its own
// and of its links. Worlds that have ended leave none behind.
func maxTasks(ranks int) int { return ranks * (25 + 6*ranks) }

// bounds checks that what a run holds does not grow with time.
func (a *auditor) bounds() {
	c := a.c
	c.seen.mostTasks = max(c.seen.mostTasks, len(c.s.tasks))
	if most := maxTasks(c.cfg.Job.Ranks); len(c.s.tasks) > most {
		a.fail(fmt.Errorf("there are %d goroutines of %d ranks, at most %d should be: worlds that ended left some", len(c.s.tasks), c.cfg.Job.Ranks, most))
	}
}

func (a *auditor) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// clear forgets what was given in worlds before one, which nobody comes back to.
func (a *auditor) clear(generation uint64) {
	maps.DeleteFunc(a.given, func(at sealed, _ []*commit.Audit) bool { return at.generation < generation })
}
