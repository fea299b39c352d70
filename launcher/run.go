package launcher

import (
	"fmt"
	"net"
	"os"
	"strconv"
)

// envControl says that our launcher started this supervisor: it holds the other
// end of the connection at controlFD.
const (
	envControl = "ECREC_CONTROL"
	controlFD  = 3
)

// Run runs a job of several processes from this place: as the launcher that
// starts all of them, or as the supervisor of one. It returns the exit code for
// this process; what went wrong has been said on spec.Stderr, unless Run returns
// an error: then nothing was started.
func Run(p Place, spec Spec) (code int, err error) { return run(p, spec, defaultLimits()) }

func run(p Place, spec Spec, lim limits) (int, error) {
	switch n := p.Processes - spec.Spares; {
	case n < 1:
		return exitBad, placeErrorf("%d processes, and elastic.spares = %d of them would wait; start more, or lower elastic.spares", p.Processes, spec.Spares)
	case spec.Ranks < n:
		return exitBad, placeErrorf("%d processes for %d ranks: every process hosts one rank at least; start fewer, or raise job.ranks", n, spec.Ranks)
	}
	lim.doubt = doubtBeats * spec.Heartbeat
	if p.Meet.Network == "shared" {
		if spec.Out == "" {
			return exitBad, secretMissing()
		}
		p.Meet = sharedFile(spec.Out, p.Meet.Address)
	}
	if p.Launch {
		return launch(p, spec, lim)
	}
	if os.Getenv(envControl) != "" {
		return newSupervisor(p, spec, lim, true).runLaunched()
	}
	s := newSupervisor(p, spec, lim, false)
	var listener net.Listener
	var err error
	switch {
	case p.Meet.Network == "pmi":
		if listener, err = s.arrangePMI(); err != nil {
			return exitFailed, err
		}
	case p.Meet.Network == "unix", p.Meet.Network == "file":
		s.secret = draw(secretBytes) // process 0's is the job's
	default:
		if s.secret, err = chosenSecret(); err != nil {
			return exitBad, err
		}
	}
	return s.run(nil, listener)
}

// runLaunched is run for a supervisor that our launcher started.
func (s *supervisor) runLaunched() (int, error) {
	keepName()
	control, err := inherit(controlFD)
	if err != nil {
		return exitBad, placeErrorf("%s is set, but there is no launcher (%v); this variable is for ecrec's own use; unset it", envControl, err)
	}
	m, err := (&wire{conn: control, us: 1, them: 0}).receive()
	if err != nil || m.Kind != kindSecret {
		return exitFailed, fmt.Errorf("the launcher is gone: %q, %v", m.Kind, err)
	}
	s.secret = m.Secret
	return s.run(control, nil)
}

// chosenSecret is the secret that people give to processes which nothing else
// tells one.
func chosenSecret() ([]byte, error) {
	v := os.Getenv(envSecret)
	if len(v) < leastSecret {
		return nil, secretMissing()
	}
	return []byte(v), nil
}

func secretMissing() error {
	return placeErrorf("%s: the processes meet over the network and need a common secret of %d characters or more to know each other; set it to the same random text for all (export %s=$(openssl rand -hex 16); with mpirun also -x %s), or let them meet by a file that all machines see: --rdzv FILE",
		envSecret, leastSecret, envSecret, envSecret)
}

// arrangePMI lets process 0 tell the others through the PMI where it listens, and
// the job's secret.
func (s *supervisor) arrangePMI() (net.Listener, error) {
	p := &s.place
	fd, err := strconv.Atoi(p.Meet.Address)
	if err != nil {
		return nil, err
	}
	conn, err := inherit(fd)
	if err != nil {
		return nil, fmt.Errorf("PMI_FD=%d: %w; give --rdzv HOST:PORT instead", fd, err)
	}
	defer conn.Close()
	var listener net.Listener
	var offer string
	if p.Process == 0 {
		host := "127.0.0.1"
		if !p.OneHost {
			if host, err = OwnAddress(); err != nil {
				return nil, err
			}
		}
		if listener, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
			return nil, fmt.Errorf("cannot listen for the other processes: %w", err)
		}
		s.secret = draw(secretBytes)
		offer = offerText(listener.Addr().String(), s.secret)
	}
	said, err := pmiShare(conn, offer, s.limits.meet)
	if err == nil {
		p.Meet, s.secret, err = parseOffer(said)
	}
	if err != nil {
		return nil, fmt.Errorf("the launcher's PMI: %w; give --rdzv HOST:PORT instead", err)
	}
	return listener, nil
}
