// Package collectives implements collective operations on buffers of all ranks, over any
// transport. There is one file for each operation. Its comment gives the algorithm, its
// steps and its bytes on the wire.
//
// # Terms
//
// A Comm is one rank's communicator on a transport.Endpoint. Its channel is the upper 16
// bits of every Tag that it uses, so that several communicators share one endpoint. n is
// the number of ranks, B the length of a buffer in bytes. A step is one message latency.
// Bytes on the wire are those that one rank sends; it receives the same number unless
// stated otherwise.
//
// # Invariants
//
//   - All ranks start the same operations of a channel in the same order, with lengths
//     that agree. Each Comm runs them one after the other, in that order. An operation
//     that was started (Handle.Start) runs on a goroutine of the Comm while the caller
//     computes. Any other runs on the caller's goroutine in Wait.
//   - Buffers and slices of counts belong to the operation from its start until its
//     Handle's Wait returns; the caller must not write to them. Device work that produces
//     them must be finished (Stream.Sync) before.
//   - AllReduce gives the same bits on all ranks: float32 additions in rank order from
//     +0.0. Chunks, timing and transport do not change them, nor whether buffers are sent
//     or read in place.
//   - While an operation runs, other ranks may read its buffers in place
//     (transport.Viewer). Only their own rank writes to them.
//   - The first failure ends a communicator. It aborts the endpoint, so that no rank
//     waits for one that failed, and every later operation returns the same error.
//     Recovery makes new communicators on a new endpoint.
//   - An operation does not end while the transport may access its memory.
//   - All ranks choose the same algorithm: by the number of ranks and by lengths that agree,
//     or by root's message (Broadcast).
//   - Nothing is allocated in the steady state. Scratch memory is bounded. The first
//     AllReduce allocates its own from the device, operations that forward tiny parts
//     (bruck.go) from the heap when they need more.
//
// The package has no global state, reads no clock and never retries. It accesses buffers
// through Buffer.Host. Buffers that only a device can address are copied through staging
// memory (staged.go).
package collectives
