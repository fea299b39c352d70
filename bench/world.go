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
	// Transports are those that Join knows, in the order in which they take turns.
	Transports []string
	// MPI is the library of the transport "mpi", whose launcher also says on which
	// cores the processes run; empty: there is none.
	MPI string
	// Join connects the processes over one of Transports. All call it, in the same
	// order and once for each; what it made is closed together with the others.
	Join func(transport string) (transport.Endpoint, error)
	// Stop reports whether to end early: one process's yes ends all.
	Stop func() bool
}

// ErrStopped is what a measurement ends with that was asked to stop.
var ErrStopped = errors.New("bench: stopped")
