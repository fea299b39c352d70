package sim

import (
	"slices"

	"github.com/ecrec/ecrec/commit"
)

// auditor checks what all owners hold whenever an epoch is sealed: that is as of one
// commit, and every parity is the encoding of its rows.
type auditor struct {
	given  map[int64][]*commit.Audit // by the step sealed
	checks int
	err    error // the first
}

// hook is a process's Options.Audit.
func (a *auditor) hook(p *process) func(int64, *commit.Audit) {
	return func(step int64, x *commit.Audit) {
		if p.dead {
			return
		}
		all := append(a.given[step], x)
		a.given[step] = all
		if len(all) < x.Owners() {
			return
		}
		delete(a.given, step)
		slices.SortFunc(all, func(x, y *commit.Audit) int { return x.Owner - y.Owner })
		a.checks++
		if err := commit.CheckAudits(all); err != nil && a.err == nil {
			a.err = err
		}
	}
}

// clear forgets what was given in a world that has ended.
func (a *auditor) clear() { clear(a.given) }
