// Package arena allocates memory that other processes of this host can read where
// it lies. A process has one arena: an anonymous file as long as the machine's
// memory, mapped whole, whose pages exist only while they are allocated and
// touched. Peers map it read-only, so that an offset names a byte to all of them,
// and no process can write what belongs to another one.
//
// It is what MPI calls a shared window and NCCL a registered buffer, without a
// collective call: memory is given and taken back at any time, by the owner alone.
//
// A process can have a second arena, which nobody else reads, and which outlives it: whoever
// started the process keeps it (Keep), for the next one to Inherit. So a worker that takes
// the place of one that was killed has its memory at once.
package arena
