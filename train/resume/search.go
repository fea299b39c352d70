package resume

import (
	"errors"
	"fmt"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lineage"
)

// Search describes the run that resumes, and where it searches.
type Search struct {
	Env env.Env
	// Asked is the value of --resume, for messages.
	Asked string
	// From is the folder of a checkpoint, or of several. If it is empty there is none.
	From string
	// Auto searches checkpoint.dir, and takes checkpoints of the run itself only.
	Auto bool
	// Run is the run that resumes.
	Run lineage.Run
	// Last is its last step, 0 before the data is open. Length is the key that decides it.
	Last   int64
	Length string
	// Allow lists keys that may differ.
	Allow []string
	// Rerun is set if the run has trained in this job. It takes checkpoints of its lineage
	// only, unless that is zero, and no other one is an error.
	Rerun bool
	// AnyRun takes every checkpoint that fits the model, for an evaluation.
	AnyRun bool
	// Skipped is called for each checkpoint that is skipped, with the reason.
	Skipped func(path string, err error)

	// Unread lists keys whose values in Run are unknown: those of a checkpoint are taken, except that a run without a file is
	// another one.
	Unread []string

	before int64 // only checkpoints of earlier steps; 0: all
}

// Origin describes the start of a run with --resume.
type Origin struct {
	Path    string // the checkpoint; empty: there was none, and the run starts from the beginning
	Step    int64
	Source  string // the topic that it was restored from; empty: it was saved by a run
	Dir     string // that was searched; empty: checkpoint.dir is not set
	Lineage string // of the run from here on, in its short form
	Forked  bool   // from the checkpoint's run
	Unnamed bool   // the checkpoint names no run
	// Differences are the keys in which the checkpoint's run differs.
	Differences []lineage.Difference
}

// Skip leaves out a checkpoint that could not be loaded, and all later ones.
func (s *Search) Skip(c *checkpoint.Checkpoint) { s.before = c.Step }

// IsFirst reports whether no checkpoint has been left out yet.
func (s *Search) IsFirst() bool { return s.before == 0 }

// Find opens the checkpoint to resume from. It returns nil if there is none. Origin is nil
// for a Rerun.
func (s *Search) Find() (c *checkpoint.Checkpoint, origin *Origin, err error) {
	if !s.Rerun {
		origin = &Origin{Dir: s.From}
	}
	if s.From == "" {
		return nil, origin, nil
	}
	found, err := checkpoint.List(s.Env, s.From)
	if err != nil {
		return nil, origin, err
	}
	if len(found) == 0 && !s.Auto {
		return nil, origin, &checkpoint.NotFound{Path: s.From}
	}
	first := s.IsFirst()
	for {
		best, err := s.chooseFrom(found, first)
		if best == nil || err != nil {
			return nil, origin, err
		}
		c, err := checkpoint.Open(s.Env, best.Path)
		if err == nil {
			if !s.Rerun && !s.AnyRun {
				origin = s.originOf(best)
			}
			return c, origin, nil
		}
		if s.isNamed(found) || !errors.Is(err, checkpoint.ErrUnusable) {
			return nil, origin, err
		}
		s.Skipped(best.Path, err)
		s.before = best.Step // it also leaves out others of that step
	}
}

// isNamed reports whether the search names one checkpoint, and not a folder of several.
func (s *Search) isNamed(found []checkpoint.Found) bool {
	return len(found) == 1 && found[0].Path == s.From
}

// chooseFrom selects one of the checkpoints that were found, and reports the others.
func (s *Search) chooseFrom(found []checkpoint.Found, first bool) (*candidate, error) {
	sel, err := s.selectFrom(found)
	if err != nil {
		return nil, err
	}
	if s.isNamed(found) && len(sel.damaged) > 0 {
		return nil, sel.damaged[0].Err
	}
	for _, p := range sel.damaged {
		s.Skipped(p.Path, p.Err)
	}
	var refusal error
	if sel.best == nil && len(sel.foreign) > 0 && !s.Rerun && first {
		refusal = s.refuseForeign(&sel.foreign[0])
		sel.foreign = sel.foreign[1:]
	}
	s.reportForeign(&sel)
	if sel.best == nil {
		return nil, refusal
	}
	if s.Last > 0 && sel.best.Step > s.Last && !s.AnyRun {
		return nil, s.refusePastEnd(sel.best)
	}
	return sel.best, nil
}

// reportForeign reports the newest checkpoint of each other run that an Auto search skips.
func (s *Search) reportForeign(sel *selection) {
	if !s.Auto || s.Rerun || !s.IsFirst() {
		return
	}
	for i := range sel.foreign {
		c := &sel.foreign[i]
		if sel.best != nil && sel.best.Run != nil && isForkOf(sel.best, c) {
			continue
		}
		s.Skipped(c.Path, fmt.Errorf("%s: it is of %s: %s", c.Path, c.runName(), c.listDifferences()))
	}
}

// originOf describes a run that resumes from c.
func (s *Search) originOf(c *candidate) *Origin {
	run := s.Continue(c.Run, c.Step)
	return &Origin{Path: c.Path, Step: c.Step, Dir: s.From, Lineage: run.Lineage.Short(),
		Forked: c.claim == claimFork, Unnamed: c.Run == nil, Differences: c.differences}
}

// Continue is the run that resumes after a step of another, which is nil if the checkpoint
// names none.
func (s *Search) Continue(from *lineage.Run, step int64) lineage.Run {
	if from == nil {
		return s.Run.Fork(lineage.Run{}, step)
	}
	run := s.Run
	run.Recipe = s.recipeFor(from.Recipe)
	return run.Resume(*from, step)
}
