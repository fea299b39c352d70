// Package feed brings batches to a rank: read, and planned together with all other ranks,
// some steps before they are trained.
//
// # Terms
//
// A span is the steps of one pass over a data source. A slice is a rank's part of a batch.
// Sources of slices are: Read, which reads them; Serve, on a reader, which reads the slices
// of some trainers and sends them; Receive, on such a trainer; and Empty, on a rank that
// trains nothing. Of a topic they are FeedTopic, on the rank that reads it, and ReceiveTopic, on
// all others.
//
// A position is the place in a topic after a step: the offset to read next of each partition,
// and the partition whose turn it is. It follows from the position before and the topic alone,
// so a step that is trained again has the same samples. No decision depends on the time.
//
// A Pipeline has one background goroutine, the planner. It takes slices from a source and
// has package lrpp plan their lookups. All ranks plan the same steps in the same order.
//
// # Invariants
//
// Every rank of a world opens a Pipeline over the same span, and closes it after the same
// step or after a failure. If a reader cannot read a slice, no rank trains that step, and
// all ranks train the steps before it.
package feed
