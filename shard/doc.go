// Package shard holds the rows that a rank owns. Weights and optimizer state of a row follow each
// other, so that its bytes are one span, which is coded, sent and saved. A journal records the
// rows that each epoch writes (journal.go).
//
// # Terms
//
// A row has width weights, then state floats of optimizer state. A slot is the place of a row at
// its owner (internal/placement). A row is touched once it has been read for training or
// written. An untouched row equals its init, a pure function of (seed, table, id), and takes no
// memory, but for a few bits and its entry in the list of places (packed.go). Touched rows take memory in the order of their first use, or
// in that of their slots.
//
// A pre-image is the bytes of a row before its first write in an epoch.
//
// A Pin is the rows as they were at one moment. A save reads them piece by piece while training writes
// others (pin.go). A Shard can list the rows that were written since the last save, for an increment (written.go).
//
// # Rows beyond memory
//
// With OpenTier some rows have a frame in memory, as package tier decides, and the others are below (frames.go). Expect declares the rows
// of the next steps. They leave memory last, and those without a frame are read in the background, to blocks of memory of their own
// (ahead.go). A row that was read ahead is used only if it has had no frame since its reading began: then nothing has written it.
//
// # Invariants
//
//   - One goroutine at a time uses the rows, through a Shard with a stream of its own (On):
//     that of the rank or, while the rank computes, the goroutine of delayed rows.
//   - The bytes of a touched row are in memory, or with OpenTier below. An untouched row has no bytes
//     that are read.
//   - A row is updated at most once per step, with the sum of its gradients in rank order.
//
// # Never
//
// A Shard does no I/O of its own (its Below does), and sends nothing to other ranks. It starts no goroutine but one that reads ahead.
package shard
