// Package transport moves bytes between the ranks of a world.
//
// # Terms
//
// A world is a fixed set of ranks 0..n-1 with a generation number. An Endpoint
// is one rank's end of it. A message goes from one rank to another under a Tag;
// messages of one (sender, receiver, tag) arrive in the order in which they were
// sent, each once. Sends and receives are posted, as in MPI: the memory named
// must stay untouched (send) or unread (receive) until the Request is done, so
// that bytes can move without a copy in between.
//
// # The contract (transporttest runs it on every implementation)
//
//   - Each message is delivered once, in order per (from, to, tag) and
//     generation, whole, or every Request on that peer ends with PeerLost.
//   - A receive names the exact length; a message of another length ends it with
//     an error that names both.
//   - Wait never hangs on a peer that is gone.
//   - Memory held by a transport for messages not yet received is bounded: a send
//     does not complete before there is room.
//   - After Close, outstanding and later requests end with ErrClosed.
//
// Everything that blocks does so through env.
package transport
