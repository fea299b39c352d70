// Package tier decides which rows of an owner are in memory while all of them are in a log on a disk
// (package rowlog).
//
// It follows OpenEmbedding (ICDE 2023, sections V.A and V.B): rows are used from a cache in DRAM, and its upkeep
// overlaps with computing. Three things differ. The rows of the next steps are planned ahead, so a row that they need
// stays while there is one that they do not need. A row that the log has leaves without a write, since the log receives
// every epoch. A row that was never written is drawn from the seed, so its first use reads nothing.
//
// # Terms
//
// A frame is memory for one row. A row is resident if a frame has it. A use is the need of a step for a row.
// A step is expected once its rows are planned, held once frames have its rows, and released when it is done with them.
// The window is the steps that are expected and not released. A row that a held step uses is held too. The next
// use of another row is by the first step of the window that uses it; it has none if no step does.
//
// A row is dirty if a step has written it and the log does not have that version. It is fresh if no step has ever
// written it. A victim is a row that leaves its frame. A dirty victim is spilled: the caller writes its bytes to a
// place from which it is read again, and keeps them until the log has that version.
//
// Steps are numbered by the caller, one after the other. All counts are of rows or frames, except in Bytes.
//
// # Events
//
//	p.Expect(t+lookahead, slots)   // the rows of a future step are planned
//	p.Hold(t, &moves)              // frames for the rows of t; the caller spills, then reads and draws
//	p.Wrote(t, slots)              // t has updated these rows
//	p.Release(t)                   // t is done with its rows
//	p.Logged(s)                    // the log can be read for all writes up to step s
//	p.Cut(s, fresh)                // a roll back: steps after s are undone
//
// Access is a step without lookahead, in one event: jobs use it today. Keep declares rows that later accesses use. They leave last,
// until Unkeep.
//
// Hold may be called some steps before the step computes, so that reads take place meanwhile. If the step does not
// fit then, it is held once an earlier one is released. Steps are held and released in order. The caller fixes the
// order of all events, such as Expect of one step before Release of another. Evaluations, saves and exports are no
// events: they read a row from its frame, or from the log if FrameOf has none.
//
// # Victims
//
// Rows leave in this order: clean rows without a next use, clean rows with one, dirty rows without a next use, dirty
// rows with one, and then rows that are kept, clean ones first. A row that is kept is expected soon. To spill another one
// instead costs a sequential write, and to read it again a random read. Among rows with a next use the furthest leaves first
// (Belady's rule). Rows that are equal in this leave in the order in which they became so; a step's rows are released by
// ascending slot. Without a next use that is least recently used first. A dirty row that is logged leaves after the rows
// that were clean before.
//
// # Cost
//
// An event costs O(1) per row. Hold also visits each step of the window at most twice, and Logged visits the dirty
// rows. No event allocates once the buffers have grown. Memory is 4 bytes for each slot, 20 for each frame, 6 for each
// use in the window, and 56 for each step of the window. The alternative to the array of slots is a bit for
// each slot and a hash table of the rows that are resident or in the window. With 16 bytes for each of these it takes less
// memory below a quarter of all rows. A step's accesses to the array ascend, and those to a hash table are random.
//
// # Invariants
//
//   - The victims are a function of the events and their order. Nothing else decides: no clock, no address, no map.
//   - A row is in at most one frame, and a frame has at most one row.
//   - A held row is never a victim, nor is a pinned one.
//   - A dirty row is a victim only if no clean one is left that is not kept, and is then reported as spilled.
//   - A Hold that returns an error changed nothing.
//
// # Never
//
// The package reads no clock, does no I/O, starts no goroutine, and never sees the bytes of a row.
package tier
