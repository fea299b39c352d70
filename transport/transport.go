package transport

import (
	"errors"
	"fmt"
)

// MaxHeldBytes limits the bytes that a transport holds of messages sent and not yet
// received, for each pair of ranks and direction.
const MaxHeldBytes = 16 << 20

// MaxPosted limits the unmatched requests with one peer in one direction.
const MaxPosted = 1024

// Tag separates streams of messages between the same two ranks. Its upper 16 bits are the
// channel. The users of an endpoint must agree on their channels.
type Tag uint64

// Request is an operation in progress.
type Request interface {
	// Wait returns when the operation's memory may be used again. It must be called once,
	// because the Request may then be reused for another operation.
	Wait() error
}

// Endpoint is one rank's end of a world. It is safe for concurrent use.
type Endpoint interface {
	Rank() int
	Size() int
	// Generation is the number of the world. A message of another generation is never
	// delivered.
	Generation() uint64
	// Send posts p to rank to, which must not be this rank.
	Send(to int, tag Tag, p []byte) Request
	// Recv posts p for the next message of rank from under tag, of len(p) bytes.
	Recv(from int, tag Tag, p []byte) Request
	// Abort ends every request on this endpoint, outstanding or later, with cause. The
	// other ranks' requests on this rank end with cause if it is a *PeerLost, which names
	// the lost rank. Otherwise they end with a PeerLost that names this rank. Only the
	// first Abort or Close has an effect.
	Abort(cause error)
	// Close is Abort(ErrClosed), and frees the endpoint's resources.
	Close() error
}

// ErrClosed ends requests on an Endpoint that was closed by its owner.
var ErrClosed = errors.New("transport: endpoint closed")

// PeerLost ends requests on a lost rank.
type PeerLost struct {
	Rank       int
	Generation uint64
	Cause      error
}

func (e *PeerLost) Error() string {
	return fmt.Sprintf("rank %d of generation %d is lost: %v", e.Rank, e.Generation, e.Cause)
}

func (e *PeerLost) Unwrap() error { return e.Cause }

// LengthError ends a receive that matched a message of another length: sender and
// receiver do not run the same protocol.
type LengthError struct {
	From, To    int
	Tag         Tag
	Sent, Wants int // bytes
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("transport: rank %d sent %d bytes under tag %#x, but rank %d expects %d",
		e.From, e.Sent, uint64(e.Tag), e.To, e.Wants)
}

// lossSeenByPeers returns the error of the other ranks' requests on a rank that aborts
// with cause.
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
		panic(fmt.Sprintf("transport: rank %d posted a message with rank %d of %d ranks", ep.Rank(), peer, ep.Size()))
	}
}
