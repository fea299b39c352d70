// Package follow makes models of the stream of a run: it applies the commits of all ranks to a copy of the model, compares its digest with
// that of the run at each of them, and saves checkpoints.
//
// # Terms
//
// A Follower has the rows of all owners in memory, with their optimizer state. It applies one cut after the other (package
// stream). The digest of its model changes by what each cut changes: the terms of the rows before and after it. A cut is
// published, as the state of the Follower or as a checkpoint, only if that digest is the one that the run had.
//
// The folder of a Follower holds checkpoints as a run saves them, and follow.json: the positions in the topic that belong to each.
//
// # Restart
//
// A Follower begins with the newest checkpoint in its folder that has positions and whose digest is right. A copy of the
// folder is the beginning of another Follower, also once the topic was trimmed.
//
// # Invariants
//
//   - No model is published whose digest differs from that of the run at the same step.
//   - A full checkpoint is byte for byte that of the run at the same step, if the run saves digests.
//   - The topic is trimmed only behind the oldest checkpoint in the folder.
package follow
