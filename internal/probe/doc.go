// Package probe names the points that every rank passes. At each point it does everything
// that observes a run: it stops the time of a stage, records it in the timeline, and
// injects faults.
//
// # Terms
//
// A point is a place in the code: "the rows that the step reads are there". The table in
// points.go lists all points with their meaning. A stage is a part of a step; most end at
// a point, which the table names.
//
// The names of points appear in `--chaos kill:RANK@STEP:POINT` and `--chaos list`, those of
// stages in metrics, reports and the timeline.
//
// # Invariants
//
// A Probe belongs to one rank. Points that end a stage are reached by the training
// goroutine only; the others may be reached by any goroutine of the rank. A Probe
// changes no number that training produces.
package probe
