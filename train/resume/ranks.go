package resume

import (
	"strconv"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lineage"
)

// Ranks is the number of ranks of a run that resumes and whose config does not set it: as many of them
// train as in the run of the checkpoint, and others read. It is 0 if there is no checkpoint. From is the
// value of --resume.
func Ranks(e env.Env, cfg *config.Config, from string, allow []string) (int, error) {
	none := lineage.Of(cfg, lineage.Inputs{}) // the data is not open
	s := Search{Env: e, Run: lineage.New(cfg.Job.Name, none), From: from, Auto: from == "auto", Allow: allow,
		Unread: []string{"job.ranks", "data.train", "data.eval", "model.init_from"}}
	if s.Auto {
		s.From = cfg.Checkpoint.Dir
	}
	c, err := s.peek()
	if c == nil || err != nil {
		return 0, err
	}
	recipe, _ := recipeOf(c.Manifest)
	value, _ := recipe.Value("job.ranks")
	trainers, err := strconv.Atoi(value)
	if err != nil || trainers < 1 {
		return 0, config.Errorf("%s: job.ranks = %s is not a number of ranks", c.Path, value)
	}
	return trainers + cfg.Ranks.Readers, nil
}

// Recorded is the value of a key of Unread that the checkpoint found by the search has. It reports
// whether there is one, of this run or of one from which it may fork.
func (s *Search) Recorded(key string) (value string, ok bool, err error) {
	c, err := s.peek()
	if c == nil || err != nil || c.claim == claimForeign || c.Run == nil {
		return "", false, err
	}
	value, ok = c.Run.Recipe.Value(key)
	return value, ok, nil
}

// peek is the checkpoint that the search would find, or one with which it would be refused. It is nil if there
// is none.
func (s *Search) peek() (*candidate, error) {
	if s.From == "" {
		return nil, nil
	}
	found, err := checkpoint.List(s.Env, s.From)
	if err != nil {
		return nil, err
	}
	sel, err := s.selectFrom(found)
	if err != nil || sel.best != nil || len(sel.foreign) == 0 {
		return sel.best, err
	}
	return &sel.foreign[0], nil // the run will be refused, for another reason than these keys
}
