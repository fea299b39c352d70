// Package lrpp brings embedding rows to the ranks that need them and takes their
// gradients back. Its name is the cache of BagPipe (SOSP'23, section 4:
// logically replicated, physically partitioned).
//
// # Path of a step's rows
//
//	ids ─ oracle.Plan ─ Planner.Fill: request lists to the owners (all-to-all-v)
//	steps t-1, t, t+1 ... t+L ─ Planner.Plan: what may move early, what must move now
//	Begin: rows of step t; gradients of t-1 and rows of t+1 move meanwhile
//	End: sums per row in sample order ─ sums in rank order, updates
//
// Exchange does that in modes Direct and Planned, Cache in mode Cached.
//
// # Terms
//
// A requester is a rank that trains a slice; an owner one that holds rows. Lists
// that travel are in owner order at the requester and in rank order at the owner,
// each part by ascending slot.
//
// A row that step t reads is late if step t-1 updates it, else early: it has its
// value before step t-1 computes. A gradient of step t goes now if step t+1 reads
// its row, else later. Late rows and gradients that go now are critical: ranks
// wait for them between two steps (BagPipe section 3.3, delayed synchronisation,
// and figure 8). The others are delayed: they move while a step computes.
//
// # Modes
//
// In mode Direct (cache mode "none") everything is critical. In mode Planned the
// owner sums gradients and applies updates, and sends each row to exactly the
// ranks that read it next, as soon as it has its value. Nobody else holds rows, so
// nothing has to be written back, and optimizer state never travels.
//
// In mode Cached (cache mode "lrpp") trainers keep rows, with their state, for as
// long as an owner's oracle.Window sees uses ahead. The one trainer that uses a row
// updates it; of the rows that several use all have copies, and apply the sum
// that the owner makes of their gradients, in rank order. A trainer writes a row
// back when it leaves. Around step t, of what oracle.Decisions says:
//
//	while t computes   sums and departures that t-1 left for later, then what makes
//	                   room for t+1, then early fetches of t+1
//	after it           updates of own rows, sums now, departures now, critical fetches of t+1
//
// An owner tells each trainer what concerns it, a word per row; both list what they
// do from the same words. Which row stands where in a trainer's cache is decided in
// plan order, in the background: while t computes, training and what is delayed
// work on disjoint slots, without locks.
//
// # Invariant
//
// A row read at step t is its owner's value after every update of steps < t. What
// is delayed touches no row that the step which computes reads or updates, and is
// done before the next critical exchange; the shard is worked on by one goroutine
// at a time. PlanOptions.Check has both asserted for every row, at the owner and
// of every cached copy at its trainer.
package lrpp
