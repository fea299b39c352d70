// Package protection protects rows as ECRec does (VLDB'23), for comparison with package commit.
//
// # Terms
//
// The difference of a row is its bytes after a step, as floats, minus those before it. A parity is the sum of the differences of the rows
// of its stripe: the parity of rows that have not changed is zero.
//
// # Protocol
//
// Each step is a commit, and training waits for it. Owners send the differences of their rows to the holders of the parities, which add
// them to the parities: half a round trip. With Variant.TwoPhase, the holders stage them first and answer, which completes the round
// trip; owners then send a commit, on which the holders add the differences and reply: a second one. With
// Variant.Copies, each trainer also sends its dense gradient to a second server of each part, which adds them up.
//
// # Simplifications
//
// ECRec trains asynchronously: the commits of some trainers overlap with the steps of others. Here all ranks wait, which makes it
// weaker. A copy of the dense part is summed gradients: no optimizer updates it, which makes it stronger. The number of rows of a
// message goes ahead in one of its own, which adds a latency. Without
// Variant.TwoPhase no answer is sent, so the second phase costs three halves of a round trip instead of two. Lost rows are not rebuilt.
//
// # Invariants
//
//   - All ranks call Seal at the same steps, and each posts the same messages with every other member of its group.
//   - Sums of floats are not exact: see ecrec bench drift.
package protection
