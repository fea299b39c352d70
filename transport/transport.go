package transport

import (
	"errors"
	"fmt"
)

// Tag separates streams of messages between the same two ranks.
type Tag uint64

// Request is an operation under way.
type Request interface {
	// Wait returns when the operation's memory may be used again.
	Wait() error
}

// Endpoint is one rank's end of a world. It is safe for concurrent use.
type Endpoint interface {
	Rank() int
	Size() int
	// Generation numbers the world: a message of another one is never delivered.
	Generation() uint64
	// Send posts p to rank to (not to itself).
	Send(to int, tag Tag, p []byte) Request
	// Recv posts p for the next message of rank from under tag, of len(p) bytes.
	Recv(from int, tag Tag, p []byte) Request
	// Close ends the endpoint.
	Close() error
}

// ErrClosed ends requests on an Endpoint that was closed here.
var ErrClosed = errors.New("transport: endpoint closed")

// PeerLost ends requests on a rank that is gone.
type PeerLost struct {
	Rank       int
	Generation uint64
	Cause      error
}

func (e *PeerLost) Error() string {
	return fmt.Sprintf("rank %d of generation %d is lost: %v", e.Rank, e.Generation, e.Cause)
}

func (e *PeerLost) Unwrap() error { return e.Cause }
