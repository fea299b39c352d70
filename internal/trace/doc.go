// Package trace records the activities of a rank's goroutines over time, and writes them as
// a Chrome trace (JSON), which https://ui.perfetto.dev shows.
//
// A Recorder has tracks, each the line of one goroutine in the timeline of one
// process; a track has spans: a name, a step, a begin and an end. Spans of a track
// are nested or disjoint. A track keeps the newest maxSpans. Its metadata hold the number of
// older ones ("dropped" beside its name).
//
// A nil *Recorder returns nil Tracks, and a nil *Track records nothing at no cost, so
// callers need no check. A Track is safe for concurrent use, but its callers must order
// Begin and End.
//
// # Several processes
//
// Each process writes its own part, which is a complete trace: process 0 to FILE, process P
// to FILE with .P before the extension. When all parts exist, the process of rank 0 calls
// Merge, which joins them in FILE. The clock of a process begins with the process. All
// processes call Zero when they leave a barrier, so their times differ by as much as they
// left it apart.
//
// No number that training produces depends on times. WriteFile and Merge block on the disk:
// rank code calls them inside Env.Do.
package trace
