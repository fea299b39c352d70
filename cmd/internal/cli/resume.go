package cli

import (
	"fmt"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/launcher/place"
	"github.com/ecrec/ecrec/lineage"
	"github.com/ecrec/ecrec/train"
	"github.com/ecrec/ecrec/train/resume"
)

// Resuming: the checks before a job starts, and its lines on the console.

// loadToResume is loadAt for a run that may resume. If the config does not set job.ranks, the run
// has as many ranks as its checkpoint, and a worker as many as its job.
func (c *trainCmd) loadToResume(p *place.Place, worker *launcher.World) (*config.Config, error) {
	if err := c.checkResume(); err != nil {
		return nil, err
	}
	at := *p
	cfg, err := c.loadAt(&at, worker != nil)
	if err != nil {
		return nil, err
	}
	written, err := c.ranksOfTopic(worker)
	if err != nil {
		return nil, err
	}
	given, err := config.Gives(c.Config, c.allSets(), "job.ranks")
	if err != nil || given || cfg.Ranks.Servers > 0 {
		*p = at
		return cfg, err
	}
	ranks, ofLogs := 0, false
	switch {
	case worker != nil:
		for _, process := range worker.Processes {
			ranks += len(process.Ranks)
		}
	case written > 0:
		ranks = written
	case c.Resume != "":
		if ranks, err = resume.Ranks(env.Real(), cfg, c.Resume, c.Allow); err != nil {
			return nil, err
		}
		if c.Resume == "auto" && ranks == 0 && cfg.Store.Path != "" {
			ranks, ofLogs = train.RanksOfLogs(env.Real(), cfg.Store.Path), true
		}
	}
	if worker == nil && ranks > 0 && ranks < cfg.Job.Ranks { // each process needs one
		if ofLogs {
			return nil, config.Errorf("--resume %s: the run in %s has %s and this job has %d processes; start fewer processes, or use another store.path",
				c.Resume, cfg.Store.Path, report.Count(int64(ranks), "rank"), cfg.Job.Ranks)
		}
		return nil, config.Errorf("--resume %s: the checkpoint's run has %s and this job has %d processes; start fewer processes, or give job.ranks, --resume DIR and --allow job.ranks",
			c.Resume, report.Count(int64(ranks), "rank"), cfg.Job.Ranks)
	}
	if ranks > 0 && ranks != cfg.Job.Ranks {
		c.Set = append(c.Set, fmt.Sprintf("job.ranks=%d", ranks))
		at = *p
		cfg, err = c.loadAt(&at, worker != nil)
	}
	*p = at
	return cfg, err
}

// ranksOfTopic is how many ranks the run has whose topic --resume names, 0 if it names none. Workers do not ask again.
func (c *trainCmd) ranksOfTopic(worker *launcher.World) (int, error) {
	from, ok, err := parseSource(c.Resume)
	if !ok || err != nil || worker != nil {
		return 0, err
	}
	n, err := from.ranksOf(env.Real())
	if err != nil {
		err = config.Errorf("--resume %s: %w", c.Resume, err)
	}
	return n, err
}

// checkResume checks --resume and --allow, without the config.
func (c *trainCmd) checkResume() error {
	if len(c.Allow) > 0 && (c.Resume == "" || c.Resume == "auto") {
		return errUsage("--allow: name the checkpoint by --resume DIR; --resume auto uses only checkpoints of the same run")
	}
	if _, ok, err := parseSource(c.Resume); ok && err != nil {
		return errUsage("--resume: " + err.Error())
	}
	for _, key := range c.Allow {
		if err := lineage.CheckAllowed(key); err != nil {
			return errUsage(err.Error())
		}
	}
	return nil
}

// printOrigin prints the first step of a run that was asked to resume, and its checkpoint.
func (c *console) printOrigin(o *resume.Origin) {
	switch {
	case o.Path == "" && o.Dir == "":
		c.printLine("nothing to resume: neither checkpoint.dir nor checkpoint.every is set; starting at step 1")
	case o.Path == "":
		c.printLine("nothing to resume: %s holds no checkpoint; starting at step 1", o.Dir)
	case o.Source != "":
		c.printLine("resuming after step %s of %s, restored in %s (lineage %s)", report.Thousands(o.Step), o.Source, o.Path, o.Lineage)
	default:
		c.printLine("resuming after step %s from %s (lineage %s)", report.Thousands(o.Step), o.Path, o.Lineage)
	}
	switch {
	case o.Unnamed:
		c.printLine("the checkpoint does not record its run: only the model and the number of ranks were compared")
	case o.Forked:
		c.printLine("this run forks from the run of the checkpoint: %s", lineage.Text(o.Differences))
	case len(o.Differences) > 0:
		c.printLine("same run with changed settings: %s", lineage.Text(o.Differences))
	}
}
