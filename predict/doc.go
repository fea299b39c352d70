// Package predict scores rows with a model in memory.
//
// # Terms
//
// A lane scores on one goroutine: it parses rows, gathers their embedding rows, runs the forward
// pass and formats the scores. All lanes share the embedding rows. Work is a chunk of text, or a
// range of the samples of a Source.
//
// # Invariants
//
//   - A score has the bits that an evaluation computes for the same row on the same device. It does
//     not depend on the other rows, on the lanes, or on the format of the data.
//   - Scores are written in the order of the rows.
//   - Memory beyond the model is bounded, except four bytes for each row that has a label: they
//     are needed for an exact AUC.
//
// The package trains nothing and communicates with no other process.
package predict
