// Package mpi is the part of MPI that package transport needs: non-blocking messages
// between the processes of MPI_COMM_WORLD.
//
// It works in binaries that were built with the tag mpi (make build-mpi), for the library
// that pkg-config finds as ompi; with the additional tag mpich, for mpich. The two are not
// binary compatible: a binary runs only under the library it was built for. In binaries
// without MPI, Init returns an error.
//
// MPI is initialised for threads that call it one at a time (MPI_THREAD_SERIALIZED).
// Errors are returned (MPI_ERRORS_RETURN), though few libraries continue after one. Init
// restores the signal handlers that the Go runtime needs if the library replaces them.
package mpi

// AnyProcess is the source of a receive that accepts a message from any process.
const AnyProcess = -1

// Comm is this process's end of a communicator. A message goes from one process to
// another under a tag; messages of one (sender, receiver, tag) are received in the
// order in which they were sent. One goroutine at a time calls it.
//
// A send or receive has a slot: a small number that the caller chooses, different from
// those of all other operations in progress. Its memory belongs to MPI until Poll returns
// the slot.
type Comm interface {
	Rank() int
	Size() int
	// Send sends p, at most MaxBytes, to another process.
	Send(slot int, p []byte, to, tag int) error
	// Recv receives a message of at most len(p) bytes.
	Recv(slot int, p []byte, from, tag int) error
	// Cancel makes a receive end soon, with or without a message.
	Cancel(slot int) error
	// Poll appends the operations that have ended to done. It does not wait.
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
