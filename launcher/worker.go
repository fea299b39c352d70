package launcher

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
)

// envWorker is the descriptor at which a worker finds its supervisor.
const envWorker = "ECREC_WORKER"

// World is what a worker knows of its job.
type World struct {
	Generation uint64
	Process    int // this one
	Processes  []Process
	// Secret authenticates the connections of this generation.
	Secret []byte
	// Listener stands at Processes[Process].Addr.
	Listener net.Listener

	link *wire
	stop atomic.Bool
}

// Worker returns the world of the job of which this process is a worker, once all
// processes are there; nil if this process is no worker. A worker hears of
// signals from its supervisor: those to itself are ignored from here on.
func Worker() (*World, error) {
	number := os.Getenv(envWorker)
	if number == "" {
		return nil, nil
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGTTOU)
	fd, err := strconv.Atoi(number)
	if err != nil {
		return nil, placeErrorf("%s=%s: this variable is for ecrec's own use; unset it", envWorker, number)
	}
	os.Unsetenv(envWorker)
	keepName()
	conn, err := inherit(fd)
	if err != nil {
		return nil, placeErrorf("%s=%s: there is no supervisor (%v); this variable is for ecrec's own use; unset it", envWorker, number, err)
	}
	w := &World{link: &wire{conn: conn, us: 1, them: 0}}
	if err := w.form(); err != nil {
		return nil, err
	}
	go w.listen()
	return w, nil
}

// form listens where the supervisor says, and waits for the world.
func (w *World) form() error {
	m, err := w.link.receive()
	if err != nil || m.Kind != kindListen {
		return fmt.Errorf("the supervisor is gone: %q, %v", m.Kind, err)
	}
	if w.Listener, err = net.Listen("tcp", net.JoinHostPort(m.Host, "0")); err != nil {
		return fmt.Errorf("cannot listen for the other processes: %w", err)
	}
	if err := w.link.send(message{Kind: kindListening, Addr: w.Listener.Addr().String()}); err != nil {
		return fmt.Errorf("the supervisor is gone: %w", err)
	}
	world, err := w.link.receive()
	if err != nil || world.Kind != kindWorld || world.World == nil {
		return fmt.Errorf("the supervisor is gone: %q, %v", world.Kind, err)
	}
	w.Generation, w.Processes, w.Secret, w.Process = world.World.Generation, world.World.Processes, world.World.Secret, m.Process
	return nil
}

// listen hears the supervisor for as long as the worker lives. Without it the
// worker does not live either.
func (w *World) listen() {
	for {
		m, err := w.link.receive()
		if err != nil {
			os.Exit(exitFailed)
		}
		if m.Kind == kindStop {
			w.stop.Store(true)
		}
	}
}

// StopRequested reports whether the job is to stop after this step.
func (w *World) StopRequested() bool { return w.stop.Load() }

// Report tells how the work ended, before the process does. It is called once.
func (w *World) Report(r Report) {
	r.Error = oneLine(r.Error)
	_ = w.link.send(message{Kind: kindReport, Report: &r}) // without a supervisor nobody is left to tell
}
