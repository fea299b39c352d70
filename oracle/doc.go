// Package oracle plans which rows a step needs and where they are fetched from. It is
// pure: ids in, plans out, with no clock, I/O or goroutine. Threads of the caller's may run
// parts of a plan.
//
// # Terms
//
// A feature is a categorical column of a sample. It looks up rows of one table; several
// features may share a table. A cell is one (sample, feature) pair of a slice: cell c of a
// slice with f features belongs to sample c/f and feature c mod f. A bag is the ids of a
// cell, and a lookup is one id of a bag. Lookups are ordered by sample, feature and
// position in the bag. A slot is the position of a row in its owner's
// shard (package internal/placement). A row is needed once per rank and step, however
// many lookups name it; such a need is called a use. A plan lists the distinct rows of a
// slice by owner and, within an owner, by ascending slot. It lists the cells of the
// lookups of each row in lookup order, which is the order in which the row's gradients
// are summed.
//
// Steps are counted from 1 by the trainer and from 0 within a Window. Capacities and
// lookaheads are numbers of rows and steps. There are no bytes or durations in this
// package.
//
// # Lookahead
//
// A Window decides the caching of the rows of one owner in cache mode lrpp. It follows
// BagPipe (SOSP'23), Algorithm 1 and section 4. Its input is the list of rows of each of
// the next steps:
//
//	w := NewWindow(options)
//	w.Add(slots, start, pos, perTrainer)   // steps t ... t+L, in the form of Merged
//	if w.Ready() { err := w.Next(&d) }     // the decisions for step t
//	w.End()                                // no more steps: the window drains
//	w.Writer(holder)                       // the trainer that writes a row back
//	w.AppendCached(rows)                   // the rows cached now, for a flush
//
// A row stays cached from its first use to the first use after which the next L steps do
// not use it. This period is called a segment. The row is classified at its first use, by
// the uses within the lookahead. It is exclusive if only one trainer uses it, and shared
// by all trainers if several do. The segment of an exclusive row also ends before a use
// by another trainer. Every evicted row is dirty, because every use updates the row. If a
// capacity binds, the row with the furthest next use is evicted (Belady's rule), and
// among equals the lowest slot.
//
// The rows fetched for step t must fit beside all rows held at step t-1, including those
// evicted after t-1. Rows used at steps t-1 and t are never evicted to make room.
//
// Decisions about one row do not depend on other rows, except where a capacity binds. The
// windows of all owners together therefore decide like one central planner. A use costs
// O(1) for any L. When the use is admitted, it costs one access to a table of all slots,
// which names the previous use, and to two bits of that use. When it is planned, it costs
// those two bits of both uses.
//
// # Method
//
// A slice is planned by a Filler. Bags, and any slice on several threads, are dealt to buckets:
// each bucket is consecutive slots of a table at an owner, and the buckets are in the order of
// the plan's rows. The lookups of a bucket of few rows are counted row by row (counting sort).
// Those of others are sorted by slot (stable radix sort). No two parts write the same
// memory, and the plan is the same on any number of threads. On one thread, slices of
// single ids are planned in the same way without buckets, one table after another, because an
// owner's slots ascend from table to table. An owner merges the
// ascending lists of the ranks pairwise, in rank order within a slot. The time of a
// window is dominated by cache misses. It therefore prefetches the data that it will need
// a few blocks of rows later, and avoids branches on random data. No call allocates once
// its buffers have grown to the size of a batch.
package oracle
