// Package modeltest is the conformance suite of model kinds, and a kind for tests.
//
// Run checks one kind on one rank: gradients by differences, buckets, slices, and the
// bits of a step. It compares the shape that the kind reports with the memory and the
// products of a model. Package train/traintest checks a kind in jobs of several ranks,
// with files and losses.
//
// Linear is a kind whose rows are wider than the embedding. Tests use it to find code
// that confuses the two widths.
package modeltest
