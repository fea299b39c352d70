// Package collectives moves buffers among all ranks of a world, over any
// transport: one file for each operation, whose comment gives its algorithm,
// its steps and its bytes on the wire.
//
// # Terms
//
// A Comm is one rank's communicator on a transport.Endpoint. Its channel is the
// upper 16 bits of every Tag it uses, so that several communicators share one
// endpoint. n is the number of ranks, B a buffer's length in bytes. A step is
// one message latency; bytes on the wire are those that one rank sends (it
// receives as many, where nothing else is said).
//
// # Invariants
//
//   - All ranks start the same operations of a channel in the same order, with
//     lengths that agree. Each Comm runs them one after the other, in that order:
//     what was started (Handle.Start) on a goroutine of its own, while the caller
//     computes; what was not, on the caller's, when it is waited for.
//   - Buffers, and the slices of counts, belong to the operation from its start
//     until its Handle's Wait returns: nobody else writes to them.
//     Work on a device that produces them is finished (Stream.Sync) before.
//   - AllReduce has one result, bit for bit, on all ranks: float32 additions in
//     rank order from +0.0, whatever the chunks, the timing and the transport
//     (DESIGN.md section 8), and whether it is sent or read in place.
//   - While an operation runs, other ranks may read its buffers where they lie
//     (transport.Viewer); only their own rank writes them.
//   - The first failure ends a communicator: it aborts the endpoint, so that no
//     rank waits for another that gave up, and every later operation ends with
//     the same error. Recovery makes new ones on a new world.
//   - An operation does not end while the transport may touch its memory.
//   - Nothing is allocated in the steady state; scratch is bounded and comes from
//     the device at the first AllReduce.
//
// The package has no global state, reads no clock and never retries. It reaches
// buffers through Buffer.Host; those that are a device's own go by way of staging
// memory (staged.go).
package collectives
