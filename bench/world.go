package bench

import (
	"errors"

	"github.com/ecrec/ecrec/transport"
)

// World is a group of processes that measure together, one rank each.
type World struct {
	Rank, Size int
	// Host is the address at which this process listens, without the port.
	Host string
	// OneHost is set if all processes are on one machine.
	OneHost bool
	// Transports lists the transports of Join, in the order of their turns.
	Transports []string
	// MPI is the library of the transport "mpi", whose launcher also binds the processes to
	// cores; empty: there is none.
	MPI string
	// Join connects the processes over one of Transports. All processes call it once per
	// transport, in the same order. All connections are closed together.
	Join func(transport string) (transport.Endpoint, error)
	// Stop reports whether to end early. If it returns true on one process, all end.
	Stop func() bool
}

// ErrStopped is the error of a measurement that was stopped.
var ErrStopped = errors.New("bench: stopped")
