// Package lrpp brings embedding rows to the ranks that use them and returns their
// gradients to the owners. It is named after the cache of BagPipe (SOSP'23, section 4):
// logically replicated, physically partitioned.
//
// # The path of a step's rows
//
//	ids ─ oracle.Plan ─ Planner.Fill: request lists to the owners (all-to-all-v)
//	steps t-1, t, t+1 ... t+L ─ Planner.Plan: early or late, now or later
//	Begin: rows of step t; meanwhile gradients of t-1 and rows of t+1 are sent
//	End: sums per row in sample order ─ sums in rank order, updates
//
// Exchange does this in modes Direct and Planned, Cache in mode Cached.
//
// # Terms
//
// A requester is a rank that trains a slice. An owner is a rank that holds rows. A slot
// is a row's position in its owner's shard; in a cache it is a position in the cache.
// Lists that are sent are in owner order at the requester and in rank order at the owner,
// each part by ascending slot.
//
// A row that step t reads is late if step t-1 updates it, otherwise early: its value is
// final before step t-1 computes. A gradient of step t is sent now if step t+1 reads its
// row, otherwise later. Late rows and gradients sent now are critical, because ranks wait
// for them between two steps (BagPipe section 3.3, delayed synchronisation, and figure
// 8). The others are delayed: they are sent while a step computes.
//
// Lists count rows. Widths and strides of rows are in float32 values. Traffic is counted in
// rows and bytes.
//
// A channel is a communicator with a stream. Critical and delayed messages have a channel
// each.
//
// # Modes
//
// In mode Direct (cache mode "none") everything is critical. In mode Planned the owner
// sums gradients and applies updates. It sends each row to exactly the ranks that read it
// next, as soon as its value is final. No other rank holds rows, so nothing has to be
// written back, and optimizer state is never sent.
//
// In mode Cached (cache mode "lrpp") trainers keep rows with their optimizer state for as
// long as the owner's oracle.Window sees future uses. A row used by one trainer is
// exclusive to it, and that trainer updates it. A row used by several is shared: all
// trainers hold a copy. The owner sums the gradients in rank order, and the trainers
// apply the sum to their copies. A trainer writes a row back when it evicts it. Around
// step t the decisions of oracle.Decisions are carried out in this order:
//
//	while t computes   SyncLater and EvictLater of t-1, then EvictForRoom of t+1,
//	                   then FetchEarly of t+1
//	after t            updates of exclusive rows, SyncNow, EvictNow, FetchCritical of t+1
//
// An owner sends each trainer one row operation (rowOp) for each row that concerns it.
// Both derive their lists from the same operations. The slots of a trainer's cache are
// assigned in plan order, in the background. While t computes, training and the delayed
// work use disjoint slots, without locks.
//
// # Invariant
//
// A row read at step t has its owner's value after every update of steps < t. Delayed
// work touches no row that the computing step reads or updates, and ends before the next
// critical exchange. Only one goroutine at a time uses the shard. With PlanOptions.Check
// this is asserted for every row at its owner and for every cached copy at its trainer.
package lrpp
