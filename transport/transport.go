package transport

import (
	"errors"
	"fmt"
)

// MaxHeldBytes bounds what a transport holds of messages that were sent and not
// yet received, for each pair of ranks and direction.
const MaxHeldBytes = 16 << 20

// MaxPosted bounds the unmatched requests with one peer in one direction.
const MaxPosted = 1024

// Tag separates streams of messages between the same two ranks. Its upper 16
// bits are the channel: whoever shares an endpoint agrees on who uses which.
type Tag uint64

// Request is an operation under way.
type Request interface {
	// Wait returns when the operation's memory may be used again. It is called
	// once: the Request is then over, and may be reused for another operation.
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
	// Abort ends every request here, outstanding or later, with cause. The other
	// ranks' requests on this one end with cause where it is a *PeerLost (it names
	// who is gone), else with a PeerLost that names this rank. The first Abort or
	// Close counts.
	Abort(cause error)
	// Close is Abort(ErrClosed), and frees the endpoint's resources.
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

// LengthError ends a receive that met a message of another length: sender and
// receiver do not run the same protocol.
type LengthError struct {
	From, To    int
	Tag         Tag
	Sent, Wants int // bytes
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("transport: rank %d sent %d bytes under tag %#x where rank %d wants %d",
		e.From, e.Sent, uint64(e.Tag), e.To, e.Wants)
}

// lossSeenByPeers is what the other ranks' requests on a rank end with when that
// rank aborts with cause.
func lossSeenByPeers(rank int, generation uint64, cause error) error {
	var lost *PeerLost
	if errors.As(cause, &lost) {
		return lost
	}
	return &PeerLost{Rank: rank, Generation: generation, Cause: cause}
}

// ended is a request that was over when it was posted.
type ended struct{ err error }

func (r ended) Wait() error { return r.err }

func checkPeer(ep Endpoint, peer int) {
	if peer < 0 || peer >= ep.Size() || peer == ep.Rank() {
		panic(fmt.Sprintf("transport: rank %d posts a message with rank %d of %d", ep.Rank(), peer, ep.Size()))
	}
}
