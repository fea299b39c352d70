// Package uring reads parts of files by io_uring: many at once, from one goroutine, with few system calls.
//
// # How
//
// A Ring has memory that it shares with the kernel: a queue of requests, a queue of their completions, and a block for
// each request under way. ReadAll splits parts into pieces that fit a block, keeps as many pieces under way as there are
// blocks, and copies each to its part when it is complete. A piece begins and ends at a multiple of Align. So any part of a
// file that was opened with O_DIRECT can be read.
//
// # Memory
//
// The kernel writes to the blocks only. They are mapped apart from Go's heap, so the garbage collector neither moves nor
// frees them. Bytes of a caller are written by copying, in ReadAll. If the kernel refuses the ring while requests are under
// way, it may still write later. The blocks then stay mapped until the process ends.
//
// The head and the tail of each queue are read and written atomically. Go's atomic operations are sequentially consistent, which is
// more than the acquire and release that io_uring needs. An entry is written before the tail that publishes it, and read before the
// head that frees it.
//
// # Invariants
//
//   - A Ring is used by one goroutine at a time.
//   - There are at most as many requests under way as blocks. The queue of requests has as many entries, and the queue of
//     completions twice as many. So neither can overflow.
//   - When ReadAll returns, no request is under way, unless the kernel refuses the ring.
//   - A short read is continued. It is an error only at the end of the file. A read that was interrupted, or that lacked memory, is submitted
//     again, up to a limit.
//   - ErrRefused means that the ring can't be used any more. Parts may be incomplete, and all of them must be read in another way. It
//     is returned where the kernel has no io_uring, and where it forbids calls, also if it does so only in the middle of a run.
//
// A goroutine that waits in ReadAll holds its thread in a system call, as one that reads a file does. The runtime gives other goroutines
// another thread. Ranks call it inside Env.Do.
package uring
