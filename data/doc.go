// Package data turns what users have into batches: it opens data sets, orders
// their samples and prepares each rank's slices in the background.
//
// # Terms
//
// A sample is a label (0 or 1), dense features (numbers) and one id per table
// (categorical features). A Source is random access to samples by index. An
// Order says which samples a step trains. A Reader is a Source read in an Order,
// ahead of its use, for one rank.
//
// # Values
//
// A dense feature x becomes log(1 + max(x, 0)) in float32. An id becomes id
// modulo the rows of its table: criteo-bin's and criteo-tsv's ids are taken as
// unsigned 32-bit numbers, csv's are the 64-bit XXH3 of the field's text.
// Missing numbers are 0; a missing csv category is the category "".
//
// # Invariants
//
//   - Which samples a step trains, and in which order, is a pure function of
//     (Order, step): nothing to save, nothing to replay.
//   - The content of a sample is a pure function of the files, or of (seed,
//     tables, index) for synthetic data.
//   - Any sample is found in O(1): text is converted once, to a record file.
//   - A Batch is reused; in the steady state reading allocates nothing.
//
// # Errors
//
// Whatever the input or the settings cause is an *Error, which errors.Is calls
// ErrInput, and names the file and line where there is one.
//
// # Never
//
// The package knows nothing of models, rows' values or other ranks, keeps no
// list of samples in memory, and writes nowhere but where its caller says.
package data
