package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ecrec/ecrec/commit"
)

// auditor checks the state of all owners whenever an epoch is sealed, and when they begin
// to rebuild. They must be at one commit, every parity must be the encoding of its rows,
// and nothing may have grown too large.
type auditor struct {
	c        *cluster
	received map[sealed][]*commit.Audit
	checks   int
	err      error // the first failure
}

// sealed identifies an epoch of a world.
type sealed struct {
	generation uint64
	step       int64
}

// auditHook returns the Options.Audit of a process.
func (a *auditor) auditHook(p *process) func(int64, *commit.Audit) {
	return func(step int64, x *commit.Audit) {
		if p.Dead || p.isFenced() {
			return
		}
		a.checkTasks()
		if !x.Left.Any() {
			a.c.faults.lost.hasRows(a.c.faults.lost.first+x.Owner, p.at.generation)
		}
		at := sealed{p.at.generation, step}
		all := append(a.received[at], x)
		a.received[at] = all
		if len(all) < x.Owners() {
			return
		}
		delete(a.received, at)
		slices.SortFunc(all, func(x, y *commit.Audit) int { return x.Owner - y.Owner })
		a.checks++
		a.failWith(commit.CheckAudits(all))
	}
}

// maxTasks limits the goroutines of a run with this many ranks: those of the ranks and of
// their links. Worlds that have ended must leave none behind. A rank is there twice while a frozen process still has it.
func maxTasks(ranks int) int { return ranks * (30 + 6*ranks) }

// checkTasks checks that the number of goroutines does not grow with time.
func (a *auditor) checkTasks() {
	c := a.c
	c.seen.mostTasks = max(c.seen.mostTasks, c.s.Tasks())
	if most := maxTasks(c.cfg.Job.Ranks); c.s.Tasks() > most {
		a.failWith(fmt.Errorf("%d goroutines of %d ranks exceed the limit of %d: worlds that ended left some behind",
			c.s.Tasks(), c.cfg.Job.Ranks, most))
	}
}

func (a *auditor) failWith(err error) {
	if a.err == nil {
		a.err = err
	}
}

// dropBefore drops the audits of worlds before generation, which cannot become complete.
func (a *auditor) dropBefore(generation uint64) {
	maps.DeleteFunc(a.received, func(at sealed, _ []*commit.Audit) bool { return at.generation < generation })
}
