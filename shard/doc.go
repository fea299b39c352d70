// Package shard holds the rows a rank owns: weights and optimizer state, side by
// side, so that the bytes of a row are one span (what is coded, sent and saved).
//
// # Terms
//
// A row has width weights followed by the optimizer's state floats. A slot is a
// row's place here (package placement). A row is touched once it has been
// written; an untouched one equals its init, a pure function of (seed, table,
// id), and takes no memory.
//
// # Invariants
//
//   - One goroutine at a time works on the rows, through a Shard of its own stream
//     (On): the rank's, or while that computes, the one that moves rows then.
//   - A touched row's bytes are in memory; an untouched one's memory was never
//     written.
//   - A row is updated at most once per step, on the sum of its gradients, which
//     arrive in rank order.
//
// # Never
//
// A Shard does no I/O and never talks to another rank.
package shard
