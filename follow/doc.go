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
// folder is the beginning of another Follower. Without one it begins with the newest base of the topic whose digest is right, or
// else with the first record. If the topic was trimmed behind its model, a newer base replaces that.
//
// # Bases
//
// A Follower that trims writes its model as a base after a checkpoint, if the topic has grown by as much as a base since the last
// one. The order is: the epochs of all ranks, their acknowledgements, the topic is trimmed up to the base's positions, older bases
// are trimmed. So a process that ends in between leaves a complete base, and all records behind it.
//
// # Invariants
//
//   - No model is published whose digest differs from that of the run at the same step.
//   - A full checkpoint is byte for byte that of the run at the same step, if the run saves digests.
//   - The topic is trimmed only behind a base that is complete and acknowledged, and older bases after that.
package follow
