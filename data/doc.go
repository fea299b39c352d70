// Package data makes batches of the data of users: it opens data sets, orders their
// samples and prepares each rank's slices in the background.
//
// # Terms
//
// A sample is a label (0 or 1), dense features (numbers) and one id per table
// (categorical features). A Source is random access to samples by index. An Order
// assigns samples to steps. A Reader reads a Source in an Order, ahead of its use, for
// one rank. A Format is an entry of Formats, the registry of data formats.
//
// # Values
//
// A dense feature x becomes log(1 + max(x, 0)) in float32. An id becomes id
// modulo the rows of its table: criteo-bin's and criteo-tsv's ids are taken as
// unsigned 32-bit numbers, csv's are the 64-bit XXH3 of the field's text.
// criteo-numpy's numbers are taken as they are, its ids as those of criteo-bin.
// Missing numbers are 0; a missing csv category is the category "".
//
// # Invariants
//
//   - Which samples a step trains, and in which order, is a pure function of
//     (Order, step): nothing to save, nothing to replay. Messages of a topic are read in its
//     order instead, by package train/feed.
//   - The content of a sample is a pure function of the files, or of (seed,
//     tables, index) for synthetic data.
//   - Any sample is found in O(1): text is converted once, to a record file.
//   - A Batch is reused; in the steady state reading allocates nothing.
//
// # Errors
//
// An error of the input or the settings is an *Error or a *KeyError. Both are ErrInput
// to errors.Is. An *Error names the file and the line, if there are any.
//
// # Never
//
// The package is independent of models, of the values of rows and of other ranks. It
// keeps no list of samples in memory, and writes only to folders that its caller names.
package data
