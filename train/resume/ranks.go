package resume

import (
	"strconv"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/lineage"
)

// Ranks is the number of ranks of the checkpoint from which a run resumes whose config
// sets none; 0 if there is no checkpoint. From is the value of --resume.
func Ranks(e env.Env, cfg *config.Config, from string, allow []string) (int, error) {
	s := Search{Run: lineage.New(cfg.Job.Name, lineage.OfConfig(cfg)), Auto: from == "auto", Allow: allow, unread: true}
	if s.Auto {
		from = cfg.Checkpoint.Dir
	}
	if from == "" {
		return 0, nil
	}
	found, err := checkpoint.List(e, from)
	if err != nil {
		return 0, err
	}
	sel, err := s.selectFrom(found)
	switch {
	case err != nil:
		return 0, err
	case sel.best == nil && len(sel.foreign) == 0:
		return 0, nil
	case sel.best == nil:
		sel.best = &sel.foreign[0] // the run will be refused, for another reason than its ranks
	}
	recipe, _ := recipeOf(sel.best.Manifest)
	value, _ := recipe.Value("job.ranks")
	ranks, err := strconv.Atoi(value)
	if err != nil || ranks < 1 {
		return 0, config.Errorf("%s: job.ranks = %s is not a number of ranks", sel.best.Path, value)
	}
	return ranks, nil
}
