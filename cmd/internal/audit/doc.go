// Package audit plans the re-execution of a run, and compares the digests of its commits with the
// recorded ones. It is pure: the command ecrec audit reads the files, and starts the
// processes that compute.
//
// A Record is the traces of a run: the digests of its commits, from events.jsonl, its checkpoints, and
// the digest at its end. PlanOf cuts the steps into intervals that begin at a state from which the run can be
// computed again: its start, or a checkpoint. Each Interval ends at a checkpoint, or at a recorded commit.
//
// An exact run that is computed again has the same digest at each commit. So the first commit that differs
// proves that one of the two runs computed or stored something wrongly after the commit before it. The digest covers
// all bytes of the model (package internal/digest), but does not locate a difference. For that the
// model of a checkpoint is compared with that of the re-execution at the same step (checkpoint.Compare).
package audit
