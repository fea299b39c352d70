package cli

import (
	"io"
	"slices"
	"sync/atomic"

	"github.com/ecrec/ecrec/cmd/internal/report"
	"github.com/ecrec/ecrec/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/launcher"
	"github.com/ecrec/ecrec/launcher/place"
	"github.com/ecrec/ecrec/train"
)

// session is the part of a process in a training job. It is the job's train.Observer: see
// observer for its parts.
type session struct {
	app     *app
	cfg     *config.Config
	env     env.Env
	process int
	world   *launcher.World // of this worker; nil in a job without supervisors: of one process, or over MPI
	mpiPart
	rebuildRows int // see envRebuildRows

	info      train.Info
	events    *recorder
	metrics   *metrics
	folder    *runFolder
	curves    *curves
	console   *console
	observers []observer // all of them, in this order

	fault    error       // the first error in opening the log
	failed   atomic.Bool // fault is set; read by all ranks
	stepping atomic.Bool // a rank has begun a step
	recovers atomic.Bool // no rank has begun a step since a loss

	ending *launcher.Ending // the job ends for a reason outside the workers; nil otherwise
	ended  error            // of this process, after its part is done
	over   bool             // the part is done, and no other process needs it
}

// newSession returns the part of a process in a job that runs here.
func (a *app) newSession(cfg *config.Config, place place.Place, part mpiPart, rebuildRows int) *session {
	s := &session{app: a, cfg: cfg, env: env.Real(), process: place.Process, world: a.stop.world, mpiPart: part, rebuildRows: rebuildRows}
	s.events = &recorder{cfg: cfg, env: s.env, process: s.process, world: func() *launcher.World { return s.world },
		warn: s.Warned, lostOn: map[int]string{}}
	s.metrics = &metrics{}
	s.folder = &runFolder{cfg: cfg, env: s.env, warn: s.Warned, gpu: s.metrics.latestGPU}
	s.curves = &curves{cfg: cfg, env: s.env, warn: s.Warned}
	s.console = newConsole(a, cfg, s.world == nil, s.events.lostNodes)
	s.observers = []observer{s.events, s.metrics, s.folder, s.curves, s.console}
	if !s.isReporter() {
		a.out = io.Discard
	}
	return s
}

// isReporter reports whether this process reports for the job: it hosts rank 0.
func (s *session) isReporter() bool {
	if s.comm != nil {
		return s.process == 0
	}
	return s.world == nil || slices.Contains(s.world.Processes[s.process].Ranks, 0)
}

// isReplacement reports whether this worker replaces a lost one.
func (s *session) isReplacement() bool {
	return s.world != nil && s.world.Processes[s.process].Incarnation > 1
}

// stopRequested reports whether the job should stop. Every rank calls it before each step.
func (s *session) stopRequested() bool {
	if s.recovers.Load() && s.recovers.CompareAndSwap(true, false) {
		limitGrowth(heapGrowth)
	}
	if !s.isReporter() && s.stepping.CompareAndSwap(false, true) {
		s.openLog()
	}
	return s.app.stop.isRequested() || s.failed.Load()
}

// beginRecovery defers collections of the heap until the next step.
func (s *session) beginRecovery() {
	s.recovers.Store(true)
	limitGrowth(recoveryGrowth)
}

// openLog begins this process's log, the only file of a process without rank 0. Started is not
// called there: the first call of stopRequested marks the start.
func (s *session) openLog() {
	err := s.env.Do("begin log", func() error { return s.folder.openFolder(s.process) })
	if err != nil {
		s.fault = err
		s.failed.Store(true)
		return
	}
	s.folder.logStart(s.process, s.world)
	s.metrics.logAddress(s.folder.run)
}

// Started implements train.Observer. It begins the output of the run, or continues that of a
// process that was lost.
func (s *session) Started(i train.Info) error {
	s.info = i
	s.app.stop.setBegun()
	s.console.show()
	if err := s.env.Do("begin output", s.beginOutput); err != nil {
		return err
	}
	s.metrics.watchGPU(i, s.folder.run)
	s.metrics.exporter.Started(i)
	s.metrics.logAddress(s.folder.run)
	s.folder.logStart(s.process, s.world)
	s.folder.logJob(i)
	if !s.events.begun { // else another process of this job has written the start
		s.events.begun = true
		s.console.printHeader(i, s.world)
		s.events.writeEvent(s.events.startEvent(i))
	}
	s.console.showSteps(i.Steps)
	s.events.recordIncidents()
	s.events.writeEarly()
	return nil
}

// beginOutput begins the files of the run, or continues them on a process that rank 0 has moved to.
func (s *session) beginOutput() (err error) {
	fresh := s.folder.run == nil
	if fresh {
		if err = s.folder.openFolder(s.process); err != nil {
			return err
		}
	}
	if err = s.beginFiles(s.process != 0 || s.isReplacement()); err == nil && s.folder.latest != "" {
		err = report.Link(s.folder.latest, s.cfg.Job.Out)
	}
	if err == nil {
		err = s.events.openRecords(s.folder.run)
	}
	if err == nil {
		if cerr := s.curves.openBoard(s.info, s.process); cerr != nil {
			s.folder.run.Log().Warn().Err(cerr).Msg("nothing is written for TensorBoard")
		}
	}
	if err != nil && fresh { // the run has not begun
		s.folder.run.Close()
		s.folder.run = nil
	}
	return err
}

// beginFiles begins the files of the run that have one writer. If it replaces a process, that
// may still hold them.
func (s *session) beginFiles(replaces bool) error {
	return s.folder.run.Begin(report.Beginning{Config: s.cfg.Resolved(), Recipe: encodeRecipe(s.info.Recipe), Steps: s.info.Steps, Resumed: s.info.Began,
		Same: sameRun(s.cfg), Job: s.events.jobID(), Replaces: replaces})
}
