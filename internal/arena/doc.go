// Package arena allocates memory that other processes of this host can read in place. A
// process has one arena: an anonymous file as long as the machine's memory, mapped
// completely. Its pages exist only while they are allocated and touched. Peers map it
// read-only: an offset names the same byte in all of them, and no process can write the
// memory of another one.
//
// MPI calls such memory a shared window, NCCL a registered buffer. Here it needs no
// collective call: the owner alone allocates and frees, at any time.
//
// A process can have a second arena, which no other process reads and which outlives it. Its
// parent holds the file (Keep), and the next process inherits it (Inherit). A worker that
// replaces a killed one thus has its memory at once.
package arena
