package bench

import (
	"errors"

	"github.com/ecrec/ecrec/transport"
)

// World is the processes that measure together, one rank each.
type World struct {
	Rank, Size int
	// OneHost says that all processes are on one machine.
	OneHost bool
	// Join connects the processes, through shared memory where that is asked for
	// and they share a machine. All call it, as often and in the same order; what
	// one call made is closed before the next.
	Join func(sharedMemory bool) (transport.Endpoint, error)
	// Stop reports whether to end early: one process's yes ends all.
	Stop func() bool
}

// ErrStopped is what a measurement ends with that was asked to stop.
var ErrStopped = errors.New("bench: stopped")
