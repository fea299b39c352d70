// Package train trains the ranks of a job: it is the step loop, which uses all other parts.
//
// # Terms
//
// A job is a run of one config. A rank is a logical part of it: it trains a slice of every
// batch and owns rows. With [ranks], a rank has one of these parts only: trainers have the
// first ids, then servers, which own rows, then readers, which send slices to trainers. All
// ranks run the same steps, with empty slices or no rows. Ranks of one process share its
// cores.
//
// A world is the set of processes that run the job at a time. A loss ends a world, and
// another one follows. A rank outlives worlds (type rank); its connections do not (type
// connections).
//
// # Path of a step on a rank
//
//	source ─ batch ─ planner ─ work queue ─┐            (train/feed, ahead of time)
//	                                       ▼
//	fetch rows ─ forward ─ loss ─ backward ─ push row gradients ─ reduce ─ update
//	                         └ step status ┘     (dense all-reduce under backward)
//
// trainSteps in loop.go is this path. Each arrow ends at a point of internal/probe, which
// takes the time, records it and injects faults.
//
// # The step status
//
// In every step all ranks exchange a status: the sum of the slice's losses, whether the rank
// was asked to stop, and the state of its commits and of a save. Decisions follow from the status of all
// ranks, so all ranks take them at the same step.
//
// # Parts of a rank
//
//	part          the dense parameters and the rows that it owns
//	connections   endpoint, communicators, exchange of rows and cache of one world
//	protection    commits, roll-back and rebuild
//	intake        its place in the topic that the samples are in, if they are in one
//	checkpointer  saves checkpoints beside training (saving.go), and loads them
//	evaluator     scores the evaluation samples
//
// topology and workload are pure: they follow from config and data.
//
// # Failure
//
// A rank that fails closes its endpoint. Calls of other ranks then end with
// transport.PeerLost. The job ends with the first error that is not a consequence of
// another, or continues in the next world.
package train
