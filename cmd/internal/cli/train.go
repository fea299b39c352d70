package cli

import (
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/ecrec/ecrec/checkpoint"
	"github.com/ecrec/ecrec/cmd/internal/chaos"
	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/arena"
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/train"
)

type trainCmd struct {
	configFlags
	placeFlags
	outFlags
	Resume string      `placeholder:"auto|DIR|TOPIC" help:"Resume from a checkpoint. auto: the newest of this run in checkpoint.dir, or start at step 1 if there is none. DIR: that checkpoint, or the newest in that folder. kafka://HOST:PORT/TOPIC[@STEP] or file:DIR[@STEP]: the model of that step in a topic of stream.to, or the newest."`
	Allow  []string    `placeholder:"KEY" help:"With --resume DIR or TOPIC: allow this config key to differ from the checkpoint's run (repeatable). The new run is a fork with a lineage of its own."`
	Chaos  []chaosSpec `sep:"none" placeholder:"SPEC" help:"Inject a fault (repeatable): kill:RANK@STEP[:POINT], node:RANK@STEP or stop:RANK@STEP:DURATION. Each fires once, even if its step is replayed. 'list' lists the points."`
	Until  int64       `hidden:"" help:"End after this step."` // for audit
	Trace  string      `placeholder:"FILE" help:"Write a timeline of the run's last steps as a Chrome trace (open it at ui.perfetto.dev)."`
}

// Run trains in this process, or in the processes that it starts.
func (c *trainCmd) Run(a *app) error {
	ignoreBrokenPipes()
	place, err := c.findPlace(a, 1, c.prepareStandby)
	if err != nil {
		return err
	}
	worker := a.stop.world
	cfg, err := c.loadToResume(&place, worker)
	if err != nil {
		return a.reportOnce(place, err)
	}
	faults, err := c.parseFaults(cfg.Job.Ranks)
	if err != nil {
		return a.reportOnce(place, err)
	}
	rows, err := rebuildRows(os.Getenv(envRebuildRows))
	if err != nil {
		return err
	}
	if worker == nil { // a worker's supervisor has checked them
		if err := c.checkOutputs(cfg); err != nil {
			return a.reportOnce(place, err)
		}
	}
	if cfg, err = c.claimOutput(a, cfg, place); err != nil {
		return err
	}
	if worker == nil && overMPI(cfg, place) {
		if err := c.checkMPI(cfg, place); err != nil {
			return err
		}
		return c.trainByMPI(a, cfg, place, rows)
	}
	if worker == nil {
		if place.Launch || place.IsAlone() || !elastic(cfg) { // else the lock may belong to this job
			if err := checkpoint.CheckFree(cfg.Checkpoint.Dir); err != nil {
				return err
			}
		}
		if !place.IsAlone() {
			job := jobSpec(cfg)
			for _, f := range c.Chaos {
				job.Faults = append(job.Faults, "--chaos "+string(f))
			}
			if job.Elastic && !place.Launch {
				keepMemory(&job, cfg, place)
			}
			job.Closed = func(end control.Closing) { conclude(cfg, place.Process, end) }
			return a.supervise(place, cfg.Resolved(), job)
		}
		if len(faults) > 0 {
			return errUsage("--chaos: faults need a job of several processes; give --np 2 or more")
		}
	}
	if worker != nil {
		defer a.spoolOutput()()
	}
	if worker != nil && elastic(cfg) {
		_ = arena.Inherit(launcher.KeptFile) // without it a restarted worker is slower
	}
	s := a.newSession(cfg, place, mpiPart{}, rows)
	s.folder.latest = c.Latest
	result, err := c.trainHere(s, faults)
	if err == nil && s.world != nil && !s.over {
		s.world.Done()
	}
	return s.closeSession(result, err)
}

// prepareStandby takes the steps of a worker before training that have no effect outside the process. A
// standby calls it: the worker that it becomes then runs code and opens libraries that are in memory.
func (c *trainCmd) prepareStandby(processes int) {
	if cfg, err := config.LoadFor(processes, c.Config, c.allSets()); err == nil {
		train.Prepare(cfg, processes)
		if os.Getenv(envStandbyGPU) != "" {
			train.PrepareGPU(cfg)
		}
	}
}

// heapGrowth is how much the Go heap may grow between collections, in percent. Large buffers are
// outside of the heap and training allocates little, so collections are rare even at a low
// value. With a high value the process would grow for minutes before the first.
const heapGrowth = 25

// recoveryGrowth is the same from a loss to the next step. With heapGrowth each set with a bit for each
// row, of which a recovery allocates some, starts a collection that the other processes wait for.
const recoveryGrowth = 400

// limitGrowth sets the growth of the heap between collections, unless the environment does.
func limitGrowth(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// trainHere trains the ranks of this process and writes its output.
func (c *trainCmd) trainHere(s *session, faults []chaos.Fault) (*train.Result, error) {
	limitGrowth(heapGrowth)
	if s.isReplacement() {
		s.beginRecovery()
	}
	if err := s.openMetrics(); err != nil {
		return nil, err
	}
	o := train.Options{Stop: s.stopRequested, Observer: s, Meter: s.metrics.meter, Progress: s.console.bars.showProgress,
		World: s.trainWorld(), Resume: c.Resume, Allow: c.Allow, Until: c.Until, Inject: s.newInjector(faults), RebuildRows: s.rebuildRows,
		PauseSaves: os.Getenv(envPauseSaves) != "", Topic: openTopic, Samples: openSamples, Session: newSession(), Restore: c.restoring(s)}
	if s.comm == nil { // else each process draws another id
		o.SaveSession = s.events.jobID()
	}
	var err error
	if o.TraceTo, err = c.traceFile(); err != nil {
		return nil, err
	}
	if s.cfg.Job.SaveModel {
		o.SaveTo, o.Saved = report.NewModel(s.cfg.Job.Out), filepath.Join(s.cfg.Job.Out, report.ModelFile)
	}
	result, err := train.Run(s.env, s.cfg, o)
	s.console.bars.endBars()
	switch {
	case err == nil:
		err = s.fault
	case s.ending != nil:
		err = s.ending
	}
	if s.ended != nil || s.over {
		err = s.ended
	} else {
		err = s.finishRun(result, err)
	}
	if err != nil {
		if s.folder.run != nil {
			return nil, failedRun{err}
		}
		return nil, err
	}
	return result, nil
}

// checkOutputs checks that a run can write its files.
func (c *trainCmd) checkOutputs(cfg *config.Config) error {
	if err := report.CheckDir(cfg.Job.Out, "job.out"); err != nil {
		return err
	}
	if c.Trace == "" {
		return nil
	}
	return report.CheckDir(filepath.Dir(c.Trace), "--trace")
}

// traceFile returns the path of the timeline, and creates its folder.
func (c *trainCmd) traceFile() (string, error) {
	if c.Trace == "" {
		return "", nil
	}
	path, err := filepath.Abs(c.Trace)
	if err != nil {
		return "", err
	}
	return path, os.MkdirAll(filepath.Dir(path), 0o755)
}

// failedRun is the error of a run that had started. Its exit code is never 2, which means that
// nothing was written.
type failedRun struct{ error }
