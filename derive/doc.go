// Package derive sends the weights of the rows of a followed model to a topic of their own, for stores that serve rows: as float32, or
// rounded to float16 or int8. Optimizer state and the dense part are not in it.
//
// # Terms
//
// A marker is a step at which the digest of the follower's model was that of the run. The topic has one partition. Its records
// have keys, and of each key the newest record counts:
//
//	TABLE/ID   the weights of a row (Encoding); without a value the row equals its init
//	begin      a Header: the rows before it are void. All rows that the run has written follow
//	marker     a Marker: with the records before it, the rows are those of the model at its step
//
// A row that the run has never written is not sent: its weights are random, and no sample has used them.
//
// # Sending
//
// Rows notes which rows differ from those in the topic, a bit each. While the topic takes records, a goroutine sends them. Once it is
// free, the rows that differ are encoded as they are at the newest marker, and the marker follows. Rows that change meanwhile are
// noted again, so a slow topic gets fewer markers, and never rows of two of them before one. The follower does not wait.
//
// If the rows that differ need more memory than Options.Backlog, a part of them is sent before. The marker follows on the rest.
//
// # Restart
//
// The last marker in the topic is the place where its readers are. A follower of the same lineage that is behind it sends nothing
// until it is there. Rows that follow the last marker are sent again. In all other cases a Header begins, and all rows are sent.
//
// # Invariants
//
//   - At a marker, the rows in the topic are those of the run's model at its step, in the encoding.
//   - The error in a marker is that of the rows that were sent for it, measured by decoding them.
//   - The memory is at most Backlog, and a bit for each row of the model.
package derive
