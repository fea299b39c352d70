// Package trace records what the goroutines of a rank do when, and writes it as a
// Chrome trace (JSON), which https://ui.perfetto.dev shows.
//
// A Recorder has tracks, each the line of one goroutine in the timeline of one
// process; a track has spans: a name, a step, a begin and an end. Spans of a track
// are nested or apart. A track keeps the newest maxSpans; its metadata say how many
// were dropped ("dropped" beside its name).
//
// A nil *Recorder gives nil Tracks, and a nil *Track records nothing at no cost, so
// callers need not ask whether a trace is wanted. A Track is safe for concurrent
// use, but Begin and End pair as its callers order them.
//
// # Several processes
//
// Each writes its own part, a whole trace by itself: process 0 to FILE, process P to
// FILE with .P before the extension. Merge, called by the process of rank 0 when all
// parts are there, makes one FILE of them. Clocks of processes begin when they do: all call
// Zero as they leave a barrier, and times agree as well as they left it together.
//
// Times never enter a number that training produces. WriteFile and Merge block on
// the disk: rank code calls them inside Env.Do.
package trace
