package cli

import (
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/config"
	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/report"
	"github.com/ecrec/ecrec/launcher"
)

// Which process speaks for all, and where each writes.

// flushLimit is how long a run that has ended waits for those who read what it says.
const flushLimit = 5 * time.Second

// spool has what a worker says wait for nobody to read it: a launcher that is killed may leave a
// pipe behind that nobody empties. A terminal is written to as it is. The run is over with
// what it returns.
func (a *app) spool() (flush func()) {
	if report.OnTerminal(a.out) {
		return func() {}
	}
	s := report.NewSpool(a.out)
	a.out = s
	return func() { s.Flush(flushLimit) }
}

// untilRead waits, for flushLimit at most, until those who read the pipes have read all of them:
// a launcher that is told to end the job may leave unread what is on its way.
func untilRead(files ...*os.File) {
	for end := time.Now().Add(flushLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		left := 0
		for _, f := range files {
			about, err := f.Stat()
			if err != nil || about.Mode()&os.ModeNamedPipe == 0 {
				continue
			}
			if n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ); err == nil {
				left += n
			}
		}
		if left == 0 {
			return
		}
	}
}

// newSession is a process's part in a job that is to run here.
func (a *app) newSession(cfg *config.Config, place launcher.Place, part mpiPart, repairRows int) *session {
	s := &session{app: a, cfg: cfg, env: env.Real(), process: place.Process, out: a.out, world: a.stop.world, mpiPart: part, repairRows: repairRows}
	if !s.speaks() {
		a.out = io.Discard
	}
	s.prepare = a.progress()
	return s
}

// speaks reports whether this process speaks for all: that which hosts rank 0.
func (s *session) speaks() bool {
	if s.comm != nil {
		return s.process == 0
	}
	return s.world == nil || slices.Contains(s.world.Processes[s.process].Ranks, 0)
}

func (s *session) stopNow() bool {
	if !s.speaks() && s.stepping.CompareAndSwap(false, true) {
		s.openLog()
	}
	return s.app.stop.asked() || s.failed.Load()
}

// openLog begins this process's log, the only file of a process without rank 0.
// That is told of no start but its ranks' first question whether to stop.
func (s *session) openLog() {
	err := s.env.Do("begin log", func() (err error) {
		s.run, err = s.open()
		return err
	})
	if err != nil {
		s.fault = err
		s.failed.Store(true)
		return
	}
	s.run.Log().Info().Msg("start")
}

// begin begins the run's output, which a process that adopts rank 0 goes on with.
func (s *session) begin() (err error) {
	if s.run == nil {
		if s.run, err = s.open(); err != nil {
			return err
		}
	}
	if s.process == 0 {
		return nil
	}
	return s.run.Adopt(s.cfg.Resolved())
}

// replaces reports whether this worker takes the place of one that was lost.
func (s *session) replaces() bool {
	return s.world != nil && s.world.Processes[s.process].Incarnation > 1
}

// open begins this process's output, or goes on with that of a worker that was lost.
func (s *session) open() (*report.Run, error) {
	if s.replaces() {
		return report.Reopen(s.cfg.Job.Out, s.cfg.Resolved(), s.process)
	}
	return report.Open(s.cfg.Job.Out, s.cfg.Resolved(), s.process)
}
