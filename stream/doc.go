// Package stream carries the commits of a run to readers outside of it, through a partitioned log such as a Kafka topic.
//
// # Terms
//
// A topic has a partition for each rank of the job, so partitions do not depend on processes. A partition holds
// records in order, each with an offset. A record is a frame: a header, at most MaxPayload bytes, and a sum of both.
//
// An epoch of a rank is the rows that it wrote after one step, From, up to another, To, as they are at the end of To. It is a
// series of frames with the numbers 0, 1, ...: rows, then extra bytes of the trainer, then an end. An epoch is absolute if
// it has all rows that the rank has ever written; all others equal their init then.
//
// Only committed epochs are written, so nothing is ever taken back. A job that falls back to an older step writes the same
// bytes again.
//
// A cut is a step at which an epoch ends on every rank. The first rank's extra bytes at a cut have the dense part of the
// model, its digest and the past of the run (package store), so a cut is a marker: a model that can be checked.
//
// # Reading
//
// A Chain follows one partition. It holds the model of the rank after some step, and takes the next epoch by these rules:
//
//	To is not after the step held      the epoch was written again: it is dropped
//	absolute                           it replaces all rows
//	From is not after the step held    it is applied on top: its rows are as of To
//	From is after the step held        a gap: frames are missing, which is an error that names offset and steps
//
// The frames of an epoch have the session of their writer, and follow each other. A writer that failed within an epoch begins it
// again. A writer that was replaced may still have frames on their way, between those of its successor: they are an epoch of
// their own then, which has the same bytes, so it does no harm and needs no fence. Another lineage is a fork: it begins
// with an absolute epoch, and frames of the lineage before it are dropped from then on, also by readers that restart
// (ReaderOptions.Left).
//
// At the end of an epoch, another writer's may be open. The Position is before the first frame of the open one then, so a reader that
// restarts has all of its frames. Frames between, of epochs that it holds, are dropped. The same holds for the description that a writer
// sends before its first epoch, until that epoch has ended.
//
// A Merge brings the epochs of all partitions to the next cut. Rows of two cuts are never mixed.
//
// # Bases
//
// A base is a model of a topic in another topic, Topic.Base: an absolute epoch of each rank, with the Position in the topic from
// which its readers continue. It is complete once all partitions have it. Readers leave out bases that lack frames
// (ReaderOptions.Bases), since a writer may have died, and the oldest one may be trimmed in part.
//
// # Writing
//
// A Log is the log of one rank for package store. It appends frames, and an epoch is durable once the topic has
// acknowledged all of them. A partition that already holds the step at which a job begins is continued. If not, the first
// epoch is absolute.
//
// # Invariants
//
//   - The frames of an epoch depend on the model, its steps, the ranks that own its rows and the session only.
//   - Every byte that a reader gets has been compared with a sum.
//   - A reader gets each cut complete or not at all, and in ascending steps within a lineage.
//
// # Never
//
// The package has no model: rows are bytes. Topics do the I/O, and the functions on frames are pure.
package stream
