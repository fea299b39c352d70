// Package lrpp brings embedding rows to the ranks that need them and takes their
// gradients back. Its name is the cache of BagPipe (SOSP'23, section 4:
// logically replicated, physically partitioned).
//
// # Path of a step's rows
//
//	ids ─ oracle.Plan ─ Planner.Fill: request lists to the owners (all-to-all-v)
//	steps t-1, t, t+1 ─ Planner.Split: what may move early, what must move now
//	Exchange.Begin: rows of step t; gradients of t-1 and rows of t+1 move meanwhile
//	Exchange.End: sums per row in sample order ─ owners sum in rank order, update
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
// # Invariant
//
// A row read at step t is its owner's value after every update of steps < t. What
// is delayed touches no row that the step which computes reads or updates, and is
// done before the next critical exchange; the shard is worked on by one goroutine
// at a time. PlanOptions.Check has both asserted at the owner for every row.
package lrpp
