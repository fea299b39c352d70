// Package plan predicts the memory, the traffic and the time of a step of a job that is not started.
//
// It is pure: numbers in, numbers out. Package train describes a job to it (train.OpenOutline), and
// package plan/calibrate measures the rates of a machine.
//
// # Terms
//
// A class is a kind of message by its purpose: see Class. Traffic is counted at the endpoint of a
// rank: messages that are posted, and the bytes of their payloads, without frames. A use is the
// need of one trainer for one row in one step.
//
// # Method
//
// Counts are exact. A Counter receives the rows of each slice of each step, finds the uses, and
// splits them as package lrpp does: a row is late if the step before uses it, a gradient is sent now
// if the next step reads its row. From the uses follow the lists, rows, gradients and deltas that
// each rank sends. Messages of the all-reduce and of the step status follow from the sizes alone.
//
// Time is a model with few parts (Clock): work of the threads that compute, work of the messages,
// and time on the wire. Exchanges that train overlaps with compute are hidden by it, as far as it
// lasts.
//
// # Invariants
//
// A count does not depend on how the ranks are spread over processes and machines. Nothing is
// allocated in proportion to the rows of the tables, only to the lookups of a step.
//
// Bytes and rows are int64. Means over ranks and steps are float64. Times are in seconds.
package plan
