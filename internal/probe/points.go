package probe

import "fmt"

// Point is a place in the code that every rank may pass. The zero Point is none.
type Point uint8

// The points, in about the order in which a rank reaches them. Those of a recovery are
// reached with the step at which the loss happened.
const (
	_ Point = iota
	// A step.
	Step
	Plan
	Planned
	Fetch
	Forward
	Backward
	Status
	Push
	Reduce
	Update
	Done
	Decide
	// A commit: the epoch is sealed, its deltas are sent, all ranks agree.
	Commit
	Flush
	Snapshot
	Delivered
	Deltas
	Seal
	Send
	Counts
	Slots
	Staged
	Prepared
	Barrier
	Settled
	// Between steps.
	Evaluate
	Scored
	Checkpoint
	Written
	Saved
	Settle
	Digest
	Count
	// A new world.
	Join
	States
	Ready
	Start
	// A recovery.
	Agree
	Rollback
	Root
	Dense
	Surveyed
	Survey
	Rebuild
	Ask
	Answer
	Install
	Installed
	Finish
	Round
	Rebuilt
	Restore
	Restored
	// Steady is not among All: a fault that waits for it is far from the one before,
	// and those of All may happen at any moment.
	Steady
	points
)

// none is the stage of a point at which no stage ends.
const none Stage = -1

// table describes each point: its name, the stage that ends there, and where it is.
var table = [points]struct {
	name string
	ends Stage
	doc  string
}{
	Step:     {"step", none, "at the beginning of a step (the default)"},
	Plan:     {"plan", none, "before a later step is planned, beside training"},
	Planned:  {"planned", StageWait, "the step's batch and plan are there"},
	Fetch:    {"fetch", StageFetch, "the rows that the step reads are there"},
	Forward:  {"forward", StageForward, "after the forward pass"},
	Backward: {"backward", StageBackward, "after the backward pass"},
	Status:   {"status", none, "the step status of all ranks is there"},
	Push:     {"push", StagePush, "gradients of rows that the next step reads are applied"},
	Reduce:   {"reduce", StageReduce, "dense gradients are summed over the ranks"},
	Update:   {"update", StageUpdate, "dense parameters are updated"},
	Done:     {"done", none, "the step is trained"},
	Decide:   {"decide", none, "commits and losses that the step status reports are handled"},

	Commit:    {"commit", none, "before the commit of the epoch that has ended"},
	Flush:     {"flush", none, "the same with cache.mode lrpp: before cached rows return to their owners"},
	Snapshot:  {"snapshot", none, "a snapshot of the dense part is taken"},
	Delivered: {"delivered", none, "the deltas of the commit before are delivered"},
	Deltas:    {"deltas", none, "the epoch's deltas are copied"},
	Seal:      {"seal", none, "the epoch is sealed"},
	Send:      {"send", none, "before deltas are sent to the ranks with parities, beside training"},
	Counts:    {"counts", none, "a rank with parities knows how many deltas it will receive"},
	Slots:     {"slots", none, "it knows the rows of these deltas"},
	Staged:    {"staged", none, "it holds the deltas"},
	Prepared:  {"prepared", none, "this rank is prepared for the commit"},
	Barrier:   {"barrier", none, "before the barrier that ends the last commit"},
	Settled:   {"settled", none, "after this barrier"},

	Evaluate:   {"evaluate", none, "before an evaluation"},
	Scored:     {"scored", none, "this rank's evaluation samples are scored"},
	Checkpoint: {"checkpoint", none, "before a checkpoint is begun"},
	Written:    {"written", none, "all parts of the checkpoint are written"},
	Saved:      {"saved", none, "the checkpoint has its name"},
	Settle:     {"settle", none, "at the end: before the last commit"},
	Digest:     {"digest", none, "at the end: before the digest"},
	Count:      {"count", none, "at the end: before counters are summed"},

	Join:   {"join", none, "a rank has joined the world of a start or a recovery"},
	States: {"states", none, "all ranks know the state of each rank"},
	Ready:  {"ready", none, "all ranks are ready to train"},
	Start:  {"start", none, "the first step is next"},

	Agree:     {"agree", none, "before the roll-back to the last commit"},
	Rollback:  {"rollback", none, "this rank's rows are rolled back"},
	Root:      {"root", none, "the rank that sends the dense part is chosen"},
	Dense:     {"dense", none, "the dense part is that of the commit"},
	Surveyed:  {"surveyed", none, "all ranks know which rows are lost"},
	Survey:    {"survey", none, "the survey of lost rows is complete"},
	Rebuild:   {"rebuild", none, "before a round of rebuilding beside training"},
	Ask:       {"ask", none, "a round: before rows are requested"},
	Answer:    {"answer", none, "a round: before the requested rows are sent"},
	Install:   {"install", none, "a round: before decoded rows are stored"},
	Installed: {"installed", none, "a round: decoded rows are stored"},
	Finish:    {"finish", none, "before all rows that are still lost are rebuilt at once"},
	Round:     {"round", none, "a round of that"},
	Rebuilt:   {"rebuilt", none, "everything that was lost is rebuilt"},
	Restore:   {"restore", none, "more is lost than the code can rebuild: before the newest checkpoint is loaded"},
	Restored:  {"restored", none, "that checkpoint is loaded"},

	Steady: {"steady", none, "at the beginning of a step, once the job has been fully redundant for some steps"},
}

// All lists the points, except Steady. The first is the point of a fault that names none.
func All() []Point {
	all := make([]Point, 0, points)
	for p := Step; p < Steady; p++ {
		all = append(all, p)
	}
	return all
}

// String is the point's name.
func (p Point) String() string {
	if p >= points {
		panic(fmt.Sprintf("probe: point %d of %d", uint8(p), points))
	}
	return table[p].name
}

// Doc describes the point's place in a few words.
func (p Point) Doc() string { return table[p].doc }

// Named is the point of a name, the zero Point if there is none.
func Named(name string) Point {
	for p := Step; p < points; p++ {
		if table[p].name == name {
			return p
		}
	}
	return 0
}
