// Package mpi is the part of MPI that package transport needs: messages between the
// processes of MPI_COMM_WORLD that do not block.
//
// It is there in binaries that were built with the tag mpi (make build-mpi), for the
// library that pkg-config finds as ompi, or with the tag mpich too as mpich: the two
// are not binary compatible, so a binary runs under the one it was built for. In all
// others Init says so.
//
// MPI is initialised for threads that call it one at a time (MPI_THREAD_SERIALIZED).
// Errors are returned (MPI_ERRORS_RETURN), though few libraries go on after one. What
// a library sets as handlers of the signals that the Go runtime needs is undone.
package mpi

// AnyProcess is the source of a receive that takes a message of any process.
const AnyProcess = -1

// Comm is this process's end of a communicator. A message goes from one process to
// another under a tag; messages of one (sender, receiver, tag) are received in the
// order in which they were sent. One goroutine at a time calls it.
//
// A send or receive has a slot, a small number of the caller's choice that no other
// one under way has. Its memory is MPI's until Poll returns it.
type Comm interface {
	Rank() int
	Size() int
	// Send sends p, at most MaxBytes, to another process.
	Send(slot int, p []byte, to, tag int) error
	// Recv receives a message of at most len(p) bytes.
	Recv(slot int, p []byte, from, tag int) error
	// Cancel has a receive end soon, with a message or without.
	Cancel(slot int) error
	// Poll appends what has ended to done. It does not wait.
	Poll(done []Done) ([]Done, error)
}

// MaxBytes bounds a message: MPI counts in int.
const MaxBytes = 1 << 30

// Done is a send or receive that has ended.
type Done struct {
	Slot        int
	From, Bytes int // of a receive
	Cancelled   bool
	Err         error
}
