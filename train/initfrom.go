package train

import (
	"fmt"

	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/store"
	"github.com/ecrec/ecrec/train/resume"
)

const keyInit = "model.init_from"

// identifyWithoutInit sets the run if the file of model.init_from cannot be read. A run that resumes does not need the file, and its
// checkpoint has the identity. If there is no checkpoint, one may be made later, of a topic. A run that begins reports the missing file
// when it loads it.
func identifyWithoutInit(j *job) error {
	later := j.world.Later
	recipe := lineage.Of(j.cfg, j.inputs).With(keyInit, `"a file that cannot be read"`)
	j.run, j.unread = lineage.New(j.cfg.Job.Name, recipe), []string{keyInit}
	if j.o.Resume == "" && !later {
		return nil
	}
	asked, own := j.searchAsked(), j.searchAsked()
	own.From, own.Auto, own.Allow = j.cfg.Checkpoint.Dir, true, nil
	for _, s := range []*resume.Search{asked, own} {
		value, ok, err := s.Recorded(keyInit)
		switch {
		case err != nil && !later:
			return err
		case err == nil && ok:
			j.run, j.unread = lineage.New(j.cfg.Job.Name, recipe.With(keyInit, value)), nil
			return nil
		}
	}
	return nil
}

// explainUnread is the error of a log, which seems to be of another run if a file is gone.
func explainUnread(j *job, err error) error {
	if len(j.unread) == 0 || !store.IsForeign(err) {
		return err
	}
	return fmt.Errorf("%s: %s cannot be read, and no checkpoint has its identity, which the logs in %s are compared by; put it back", keyInit,
		j.cfg.Model.InitFrom, j.cfg.Store.Path)
}
