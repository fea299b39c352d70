package resume

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/lineage"
)

// claim is how a checkpoint relates to the run. A smaller claim is better.
type claim int

const (
	claimOwn     claim = iota // of this recipe, and for Auto of this name
	claimUnnamed              // it names no run, and its model fits
	claimFork                 // all differences are allowed
	claimForeign
)

// candidate is a checkpoint that can be read.
type candidate struct {
	checkpoint.Found
	claim
	differences []lineage.Difference
}

// lineageID is that of the candidate's run, and zero if it names none.
func (c *candidate) lineageID() lineage.ID {
	if c.Run == nil {
		return lineage.ID{}
	}
	return c.Run.Lineage
}

// runName names the candidate's run in a message.
func (c *candidate) runName() string {
	if c.Run == nil {
		return "a run that it does not name"
	}
	return c.Run.String()
}

// listDifferences lists the keys that make the candidate's run a different one.
func (c *candidate) listDifferences() string {
	return lineage.Text(slices.DeleteFunc(slices.Clone(c.differences),
		func(d lineage.Difference) bool { return !d.Defines() && d.Key != "job.name" }))
}

// judgeFound compares a checkpoint with the run.
func (s *Search) judgeFound(f checkpoint.Found) candidate {
	c := candidate{Found: f, claim: claimForeign}
	switch {
	case s.AnyRun:
		c.claim = claimOwn
		return c
	case s.Rerun && s.Last > 0 && f.Step > s.Last:
		return c
	case s.Rerun && s.Run.Lineage != lineage.ID{}:
		if s.isOwnLineage(&c) {
			c.claim = claimOwn
		}
		return c
	}
	there, partial := recipeOf(f.Manifest)
	c.differences = there.Diff(s.recipeFor(there), partial)
	switch {
	case len(lineage.Refused(c.differences, nil)) > 0:
		if !s.Auto && len(lineage.Refused(c.differences, s.Allow)) == 0 {
			c.claim = claimFork
		}
	case f.Run == nil:
		c.claim = claimUnnamed
	case s.Auto && f.Run.Name != s.Run.Name:
		c.differences = append(c.differences, lineage.Difference{Key: "job.name", There: strconv.Quote(f.Run.Name),
			Here: strconv.Quote(s.Run.Name)})
	default:
		c.claim = claimOwn
	}
	return c
}

// isOwnLineage reports whether a checkpoint is of the run's lineage, or is the one from
// which the run forked.
func (s *Search) isOwnLineage(c *candidate) bool {
	if n := len(s.Run.Forks); n > 0 && (lineage.Fork{Lineage: c.lineageID(), Step: c.Step}) == s.Run.Forks[n-1] {
		return true
	}
	return c.lineageID() == s.Run.Lineage
}

// recipeFor is the run's recipe, for a comparison with that of a checkpoint.
func (s *Search) recipeFor(there lineage.Recipe) lineage.Recipe {
	here := s.Run.Recipe
	for _, key := range s.Unread {
		if value, ok := there.Value(key); ok && value != lineage.None {
			here = here.With(key, value)
		}
	}
	return here
}

// recipeOf is the recipe of a checkpoint's run. If the checkpoint names no run, it is the
// part that its model implies.
func recipeOf(m *checkpoint.Manifest) (recipe lineage.Recipe, partial bool) {
	if m.Run != nil {
		return m.Run.Recipe, false
	}
	var rows []string
	for _, t := range m.Model.Tables {
		rows = append(rows, fmt.Sprint(t.Rows))
	}
	return lineage.Recipe{
		{Key: "job.ranks", Value: fmt.Sprint(m.Ranks)},
		{Key: "job.seed", Value: fmt.Sprint(m.Model.Seed)},
		{Key: "model.embedding_dim", Value: fmt.Sprint(m.Model.Width)},
		{Key: "model.kind", Value: strconv.Quote(m.Model.Kind)},
		{Key: "model.tables", Value: "[" + strings.Join(rows, ", ") + "]"},
		{Key: "optimizer.dense.kind", Value: strconv.Quote(m.Model.Dense)},
		{Key: "optimizer.sparse.kind", Value: strconv.Quote(m.Model.Sparse)},
	}, true
}

// selection is the result of a search.
type selection struct {
	best    *candidate           // nil: there is none
	foreign []candidate          // the newest of each other run
	damaged []checkpoint.Problem // newer than best
}

// selectFrom selects among the checkpoints that were found, the newest first.
func (s *Search) selectFrom(found []checkpoint.Found) (sel selection, err error) {
	seen := map[lineage.ID]bool{}
	var own *candidate // of a lineage that is not best's
	for _, f := range found {
		if f.Err != nil {
			if errors.As(f.Err, new(*checkpoint.Newer)) {
				return sel, f.Err
			}
			if sel.best == nil && s.IsFirst() {
				sel.damaged = append(sel.damaged, checkpoint.Problem{Path: f.Path, Err: f.Err})
			}
			continue
		}
		if s.before > 0 && f.Step >= s.before {
			continue
		}
		c := s.judgeFound(f)
		switch {
		case c.claim == claimForeign:
			if !seen[c.lineageID()] {
				seen[c.lineageID()] = true
				sel.foreign = append(sel.foreign, c)
			}
		case sel.best == nil || c.claim < sel.best.claim:
			sel.best = &c
		case c.claim == claimOwn && c.lineageID() != sel.best.lineageID() && !s.AnyRun && !s.Rerun:
			own = &c
		}
	}
	if own != nil {
		return sel, config.Errorf("%s and %s are of two lineages of this run's recipe, %s and %s; name one with --resume",
			sel.best.Path, own.Path, sel.best.lineageID().Short(), own.lineageID().Short())
	}
	return sel, nil
}

// isForkOf reports whether a checkpoint's run forked from that of another.
func isForkOf(c, other *candidate) bool {
	return slices.ContainsFunc(c.Run.Forks, func(f lineage.Fork) bool { return f.Lineage == other.lineageID() })
}

// refuseForeign is the error if only checkpoints of other runs were found; c is the newest.
func (s *Search) refuseForeign(c *candidate) error {
	refused := lineage.Refused(c.differences, s.Allow)
	what := c.listDifferences()
	if s.Auto {
		what = fmt.Sprintf("no checkpoint of %s is in checkpoint.dir; the newest, %s, is of %s: %s", s.Run.String(), c.Path, c.runName(), what)
	} else {
		what = fmt.Sprintf("%s is of %s, this is %s: %s", c.Path, c.runName(), s.Run.String(), what)
	}
	do := "choose another checkpoint.dir"
	var keys []string
	for _, d := range refused {
		if d.Fixed() {
			return config.Errorf("--resume %s: %s; %s, since a checkpoint cannot change %s", s.Asked, what, do, d.Key)
		}
		keys = append(keys, " --allow "+d.Key)
	}
	return config.Errorf("--resume %s: %s; %s, or resume from it all the same: --resume %s%s", s.Asked, what, do, c.Path,
		strings.Join(keys, ""))
}

// refusePastEnd is the error if the run would end before the checkpoint.
func (s *Search) refusePastEnd(c *candidate) error {
	return config.Errorf("%s is of step %d of %s, but this is %s, which ends at step %d (%s); let it train longer, or name an older checkpoint with --resume",
		c.Path, c.Step, c.runName(), s.Run.String(), s.Last, s.Length)
}
