package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ecrec/ecrec/launcher"
)

// errStopped is the error of a command that a signal ended.
var errStopped = errors.New("stopped by a signal")

// stopper receives SIGINT and SIGTERM.
//
// The first signal requests a stop, and the second ends the process at once. Before a command has
// checked for a request for the first time, the first signal also ends the process: the command
// may be waiting for a pipe or a file system and never check.
type stopper struct {
	errw    io.Writer
	begun   atomic.Bool     // the command has begun, and checks for a request
	first   atomic.Int32    // the signal that requested a stop; 0: none
	world   *launcher.World // of a worker, which receives stop requests from its supervisor; else nil
	signals chan os.Signal
	done    chan struct{}
	closed  bool
}

func newStopper(errw io.Writer) *stopper {
	s := &stopper{errw: errw, signals: make(chan os.Signal, 2), done: make(chan struct{})}
	signal.Notify(s.signals, syscall.SIGINT, syscall.SIGTERM)
	go s.receiveSignals()
	return s
}

func (s *stopper) receiveSignals() {
	for {
		select {
		case <-s.done:
			return
		case sig := <-s.signals:
			number := int32(sig.(syscall.Signal))
			if !s.first.CompareAndSwap(0, number) {
				os.Exit(128 + int(number))
			}
			if !s.begun.Load() {
				fmt.Fprintln(s.errw, "ecrec: stopped by a signal before any work began")
				os.Exit(128 + int(number))
			}
		}
	}
}

// setBegun makes the first signal wait until the command checks for a request.
func (s *stopper) setBegun() { s.begun.Store(true) }

// isRequested reports whether a stop is requested.
func (s *stopper) isRequested() bool {
	s.setBegun()
	return s.first.Load() != 0 || s.world != nil && s.world.StopRequested()
}

// endLate ends the process some time after a signal requested a stop, unless ended is closed before. It prints the text that why
// returns. It is for commands whose parts are long, and without a place to check for a request.
func (s *stopper) endLate(grace time.Duration, ended <-chan struct{}, why func() string) {
	tick := time.NewTicker(grace / 10)
	defer tick.Stop()
	for left := 10; left > 0; {
		select {
		case <-ended:
			return
		case <-tick.C:
			if s.first.Load() != 0 {
				left--
			}
		}
	}
	fmt.Fprintln(s.errw, "ecrec: "+why())
	os.Exit(s.exitCode())
}

// err returns errStopped if a stop is requested, else nil.
func (s *stopper) err() error {
	if s.isRequested() {
		return errStopped
	}
	return nil
}

func (s *stopper) exitCode() int { return 128 + int(s.first.Load()) }

// restoreSignals restores the default: a signal ends the process.
func (s *stopper) restoreSignals() {
	if s.closed {
		return
	}
	s.closed = true
	signal.Stop(s.signals)
	close(s.done)
}

// ignoreBrokenPipes makes a run survive a closed stdout: ecrec train ... | head -1 trains to the
// end. Without it SIGPIPE would end each of its processes.
func ignoreBrokenPipes() { signal.Ignore(syscall.SIGPIPE) }
