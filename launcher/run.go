package launcher

import (
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/place"
	"github.com/ecrec/ecrec/launcher/wire"
)

// launcherFD is the descriptor at which a supervisor finds the local launcher, if
// place.EnvControl is set.
const launcherFD = 3

// Run runs a job of several processes from this place: as the local launcher, which starts
// them all, or as the supervisor of one. It returns the exit code for this process. If it
// returns an error, nothing was started; other errors were printed to spec.Stderr.
func Run(p place.Place, spec Spec) (code int, err error) { return runJob(p, spec, defaultLimits()) }

func runJob(p place.Place, spec Spec, lim limits) (int, error) {
	if !supported {
		return control.ExitBad, place.Errorf("jobs of several processes need Linux, where a killed job leaves none behind; on %s train in one process, with job.ranks as you like", runtime.GOOS)
	}
	switch n := p.Processes - spec.Spares; {
	case n < 1:
		return control.ExitBad, place.Errorf("%d processes, and elastic.spares = %d of them would wait; start more, or lower elastic.spares",
			p.Processes, spec.Spares)
	case spec.Ranks < n:
		return control.ExitBad, place.Errorf("%d processes for %d ranks: every process hosts one rank at least; start fewer, or raise job.ranks", n, spec.Ranks)
	}
	if err := place.CheckSecret(); err != nil {
		return control.ExitBad, err
	}
	lim.Doubt = doubtBeats * spec.Heartbeat
	p, err := p.In(spec.Out)
	if err != nil {
		return control.ExitBad, err
	}
	if p.Launch {
		return launch(p, spec, lim)
	}
	if os.Getenv(place.EnvControl) != "" {
		return newSupervisor(p, spec, lim, true).runLaunched()
	}
	s := newSupervisor(p, spec, lim, false)
	var listener net.Listener
	switch {
	case p.Rendezvous.Network == "pmi":
		if listener, s.secret, err = s.place.ArrangePMI(lim.Meet); err != nil {
			return control.ExitFailed, err
		}
	case p.Rendezvous.Network == "unix", p.Rendezvous.Network == "file":
		s.secret = place.DrawSecret() // process 0's is the job's
	default:
		if s.secret, err = place.ChosenSecret(); err != nil {
			return control.ExitBad, err
		}
	}
	return s.runPlace(listener)
}

// runLaunched is runPlace for a supervisor of the local launcher.
func (s *supervisor) runLaunched() (int, error) {
	setProcessName("")
	conn, err := wire.Inherit(launcherFD)
	if err != nil {
		return control.ExitBad, place.Errorf("%s is set, but there is no launcher (%v); this variable is for ecrec's own use; unset it",
			place.EnvControl, err)
	}
	s.launcher = wire.NewConn(conn)
	m, err := s.launcher.Receive()
	if err != nil || m.Kind != control.KindSecret {
		return control.ExitFailed, fmt.Errorf("the launcher is gone: %q, %v", m.Kind, err)
	}
	s.secret = m.Secret
	return s.runPlace(nil)
}
