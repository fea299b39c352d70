// Package sinktest tests implementations of commit.Sink. Test runs the suite that every sink
// passes. Memory is a small sink that can be read as an example.
//
// # Terms
//
// The suite drives sinks as a job does: a commit.Committer for each rank, whose rows are
// updated in steps and sealed in epochs. It keeps copies of all rows at the end of each
// epoch, and compares them with the rows that the sink holds.
//
// # Invariants
//
// Every rule that commit.Sink states about a sink has a test here. Rules about its callers
// are tested in package commit.
//
// # Never
//
// Production code does not import this package.
package sinktest
