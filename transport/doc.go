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
//     a LengthError that names both. What the send ends with is then open.
//   - A send that is done says that its memory is free, not that the peer has
//     received it.
//   - Wait never hangs on a peer that is gone: when a rank closes its endpoint, is
//     killed or loses its connection, the requests of the others on it end with
//     PeerLost at once.
//   - A loss is seen only by requests on the lost rank. A protocol of several
//     ranks that gives up must therefore Abort: that ends everything on its own
//     endpoint, and passes the loss on to whoever waits for it. Otherwise a third
//     rank, which had nothing outstanding with the lost one, would wait for ever.
//   - Memory held by a transport for messages not yet received is at most
//     MaxHeldBytes for each pair of ranks and direction: a send is not done before
//     there is room.
//   - After Close, outstanding and later requests end with ErrClosed. A request
//     whose bytes are moving may still end well; none ends while its memory is in
//     use.
//   - A caller has at most MaxPosted unmatched requests with one peer in one
//     direction; posting more is a bug in the caller, and panics.
//
// # Implementations
//
// NewMem connects ranks of one process.
//
// Join connects processes. Ranks of one process then talk as in NewMem; two
// processes share a link: a connection, and a ring of shared memory in each
// direction where they are on one host. A short message is sent at once if its
// receiver has promised to hold it (credit, in all MaxHeldBytes for a pair), a
// longer one is offered and sent when it is wanted; where the receive is posted,
// its bytes go straight into its memory. On one host a longer message is
// copied once, by its receiver, from where it lies: in the sender's arena, which
// peers map read-only (internal/arena), or anywhere, where the system lets a
// process read its peer's memory (process_vm_readv; not under Yama's ptrace_scope
// of 1 and more). Frames carry the generation, a sequence number and a CRC-32C of
// their header; over a connection also one of the payload, since TCP's own sum is
// weak, while in memory the hardware has better codes. A
// process is lost when its connection ends (so a killed one is noticed at once,
// through what it had written before) or when it is silent for 5 heartbeats. What
// rings is a memfd: it has no name, so no kind of death leaves it behind, and each
// generation makes its own. Peers prove in a handshake that they know the job's
// secret; frames are not encrypted, and whoever can change packets on the way is
// trusted.
//
// What lies in an arena can also be read without any message: see Viewer. No
// process can write to another's memory, but for the rings.
//
// Wait polls the rings for some microseconds, then sleeps until the peer rings a
// futex. Both are quickest where each process has cores of its own: give each
// process its share of them (sched_setaffinity), and GOMAXPROCS one more than
// compute threads where exchanges overlap with computing.
//
// JoinMPI connects the processes of an MPI communicator, in builds that have one: the
// same links, whose frames one goroutine carries by MPI, while wanted messages go from
// memory to memory by themselves, without a checksum of ours. It proves nobody's
// identity, and a process that falls silent is lost after 5 heartbeats.
//
// Wrap puts faults under any of them, below
// the contract: it delays, reorders across tags, stalls and loses peers.
//
// WrapLink puts a link of a given bandwidth and latency over any of them, to measure
// on one machine what a network would do.
//
// Everything that blocks does so through env. A transport never looks into a
// message, never retries one, and never decides who is a member of the world.
package transport
