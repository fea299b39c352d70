package cli

import (
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/ecrec/ecrec/launcher"
)

// errStopped is a command that a signal ended.
var errStopped = errors.New("stopped by a signal")

// stopper hears SIGINT and SIGTERM.
type stopper struct {
	first   atomic.Int32    // the signal that asked for a stop; 0: none
	world   *launcher.World // of a worker, which hears of signals from there; else nil
	signals chan os.Signal
	done    chan struct{}
	closed  bool
}

func newStopper() *stopper {
	s := &stopper{signals: make(chan os.Signal, 2), done: make(chan struct{})}
	signal.Notify(s.signals, syscall.SIGINT, syscall.SIGTERM)
	go s.listen()
	return s
}

func (s *stopper) listen() {
	for {
		select {
		case <-s.done:
			return
		case sig := <-s.signals:
			number := int32(sig.(syscall.Signal))
			if !s.first.CompareAndSwap(0, number) {
				os.Exit(128 + int(number)) // the second signal: at once
			}
		}
	}
}

// asked reports whether a signal asked for a stop.
func (s *stopper) asked() bool {
	return s.first.Load() != 0 || s.world != nil && s.world.StopRequested()
}

// check is errStopped once a signal asked for a stop.
func (s *stopper) check() error {
	if s.asked() {
		return errStopped
	}
	return nil
}

func (s *stopper) exitCode() int { return 128 + int(s.first.Load()) }

// close goes back to the default: a signal ends the process.
func (s *stopper) close() {
	if s.closed {
		return
	}
	s.closed = true
	signal.Stop(s.signals)
	close(s.done)
}

// goOnUnheard has a run go on where nobody reads any more what it says: the end of a pipe
// that its output goes to would else be the end of each of its processes, time and again.
// What it has to tell is in its files.
func goOnUnheard() { signal.Ignore(syscall.SIGPIPE) }
