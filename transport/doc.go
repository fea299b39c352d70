// Package transport sends messages between the ranks of a world.
//
// # Terms
//
// A world is a fixed set of ranks 0..n-1 with a generation number. An Endpoint is one
// rank's end of it. A message is sent from one rank to another under a Tag. Messages of
// one (sender, receiver, tag) arrive once each, in the order in which they were sent.
// Sends and receives are posted, as in MPI. Until the Request is done, the caller must
// not write to the memory of a send, nor access the memory of a receive. Bytes can
// therefore be transferred without an intermediate copy. Lengths are in bytes, and times
// are those of the Env.
//
// # The contract (transporttest checks it for every implementation)
//
//   - Each message is delivered once, complete, and in order per (from, to, tag) and
//     generation. Otherwise every Request on that peer ends with PeerLost.
//   - A receive gives the exact length. A message of another length ends it with a
//     LengthError that names both lengths. The result of the send is then undefined.
//   - A completed send means that its memory may be reused, not that the peer has
//     received the message.
//   - Wait never hangs on a lost peer. When a rank closes its endpoint, is killed or
//     loses its connection, the requests of the others on it end with PeerLost at once.
//   - Only requests on the lost rank see a loss. A protocol of several ranks that gives
//     up must therefore Abort. Abort ends everything on its own endpoint and reports the
//     loss to the ranks that wait for it. Otherwise a third rank, which had nothing
//     outstanding with the lost one, would wait forever.
//   - A transport holds at most MaxHeldBytes of messages not yet received, for each pair
//     of ranks and direction. A send is not done before there is room.
//   - After Close, outstanding and later requests end with ErrClosed. A request whose
//     bytes are being transferred may still succeed. None ends while its memory is in
//     use.
//   - A caller has at most MaxPosted unmatched requests with one peer in one direction.
//     Posting more is a bug in the caller, and panics.
//
// # Implementations
//
// NewMem connects ranks of one process.
//
// Join connects processes. Ranks of one process then communicate as in NewMem. Two
// processes share a link: a connection and, on one host, a ring of shared memory in each
// direction. A short message is sent at once if the receiver has granted credit,
// MaxHeldBytes in all for a pair. A longer one is offered, and sent when the receiver
// asks for it. If the receive is posted, the bytes are stored directly in its memory.
//
// On one host a longer message is copied once, by its receiver, from the sender's memory.
// That memory is either in the sender's arena, which peers map read-only
// (internal/arena), or anywhere if the kernel allows a process to read its peer's memory
// (process_vm_readv; not with Yama's ptrace_scope of 1 or more).
//
// Frames carry the generation, a sequence number and a CRC-32C of their header. Over a
// connection they also carry a CRC-32C of the payload, because TCP's checksum is weak;
// memory has stronger codes in hardware. A process is lost when its connection ends, so
// that a killed one is noticed at once, after the data that it had written. It is also
// lost when it is silent for longer than NetOptions.Silence and a multiple of the delay
// of this process's own heartbeats (watchdog). Rings are memfds. They have no name, so
// that they never outlive their processes, and each generation makes its own.
//
// Peers prove in a handshake that they know the generation's secret. Sealed connections
// (NetOptions.Secure) carry frames in records of package internal/seal instead of
// checksums of payloads. A byte that is changed, repeated, dropped or redirected on the
// network loses the peer, with ErrForged as the cause. Bytes that fail authentication are
// never stored in a receive that succeeds, nor do they count as a sign of life. On a
// connection in clear, the network is trusted. Rings of shared memory are accessible only
// to processes of the same user: the kernel protects them.
//
// Memory in an arena can also be read without any message: see Viewer. No process can
// write to another's memory, except to the rings.
//
// Wait polls the rings for a fraction of a millisecond and then sleeps until the peer writes
// a byte to a pipe. If a process has a core for each of its ranks, Wait polls the
// connection of its request too, and the sender of a short message writes it to the
// connection itself, in clear or sealed: neither waits until the system has woken a
// goroutine of the connection. Rings and connections are fastest if each process has cores
// of its own. Give each process its share of the cores (sched_setaffinity). If exchanges
// overlap with computation, set GOMAXPROCS to one more than the number of compute threads.
//
// JoinMPI connects the processes of an MPI communicator, in builds that include MPI. It
// uses the same links, but one goroutine sends their frames by MPI, and bytes of long
// messages are sent from memory to memory without frames or checksums. It authenticates
// no process. A silent process is lost after MPIOptions.Silence.
//
// Wrap injects faults below the contract of any of them: it delays, reorders across tags,
// stalls and loses peers.
//
// EmulateLink emulates a link of a given bandwidth and latency over any of them, to
// measure on one host what a network would do. NewNetwork is the same model among the ranks of
// one process, for virtual time.
//
// Everything that blocks does so through env. A transport never inspects the content of a
// message, never retries one, and never decides on the members of a world.
package transport
