// Package lrpp brings embedding rows to the ranks that need them and takes their
// gradients back. Its name is the cache of BagPipe (SOSP'23, section 4:
// logically replicated, physically partitioned); this version has cache mode
// "none", which fetches before and writes back after every step.
//
// # Path of a step's rows
//
//	ids ─ oracle.Plan ─ Planner: request lists to the owners (all-to-all-v) ─ Step
//	Step ─ Fetch: owners read their rows ─ all-to-all-v ─ rows of the slice
//	gradients of lookups ─ Push: sums per row in sample order ─ all-to-all-v ─
//	owners sum in rank order and update each row once
//
// # Terms
//
// A requester is a rank that trains a slice; an owner one that holds rows. Every
// rank is both. Lists that travel are in owner order at the requester and in
// rank order at the owner, each part by ascending slot.
//
// # Invariant
//
// A row read at step t is its owner's value after every update of steps < t: an
// owner serves step t only after it has applied all pushes of step t-1, which
// the order of calls on one goroutine gives.
package lrpp
