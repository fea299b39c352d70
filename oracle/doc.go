// Package oracle plans which rows a step needs and where they come from. It is
// pure: ids in, plans out, no clock, no I/O, no goroutines.
//
// # Terms
//
// A lookup is one (sample, table) pair of a slice; lookup l of a slice with t
// tables is sample l/t, table l mod t. A row is needed once per rank and step,
// however many lookups name it. A plan lists the distinct rows of a slice by
// owner and, within an owner, by ascending slot, with the lookups of each row in
// sample order: the order in which its gradients are summed (DESIGN.md section 8).
//
// # Looking ahead
//
// A Window decides what the trainers' caches do with the rows of one owner in
// cache mode lrpp (BagPipe, SOSP'23, Algorithm 1 and section 4), from the lists of
// the next steps:
//
//	w := NewWindow(options)
//	w.Add(slots, start, pos, perTrainer)   // steps t ... t+L, as Merged gives them
//	if w.Ready() { err := w.Next(&d) }     // what happens around step t
//	w.End()                                // no more: the window shrinks to nothing
//	w.Writer(holder)                       // who writes a row back
//	w.AppendCached(rows)                   // what stays cached now, for a flush
//
// A row stays cached from its first use until no use is known in the L steps after
// one: a segment. At the first use it is classified by all uses known: exclusive
// to the only trainer that wants it, else shared by all. An exclusive row's segment
// also ends before a use by another trainer. All rows that leave are dirty, for
// every use is an update. Where a capacity binds, the row whose next use is
// furthest leaves (Belady), among equals the lowest slot.
//
// What is fetched for step t must fit beside all that is held at step t-1, also
// what leaves after it; rows of steps t-1 and t never make room.
//
// Each row is decided about by itself but for capacity, so the windows of all
// owners together decide what one central planner would. A use costs O(1) whatever
// L is: when it becomes known, a look into a table of all slots, which names the use
// before, and two bits of that one; when it is planned, those bits of both.
//
// # Method
//
// A plan goes table by table, for an owner's slots ascend from table to table:
// lookups of a table with few rows are counted row by row (counting sort), those of
// others are sorted by owner and slot (stable radix sort). An owner merges the lists
// it gets, each ascending, two by two, with rank order within a slot. A window's
// time would go into cache misses: it prefetches what it will look up some blocks of
// rows later, and does not branch on what only chance knows. No call allocates once
// its buffers have grown to the size of a batch.
package oracle
