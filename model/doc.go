// Package model computes recommendation models on one rank's slice of a batch:
// a dense tower, an interaction over embedding rows, a loss.
//
// # Terms
//
// b is the samples of the slice, t the tables, d the weights of a row. A model
// owns its dense parameters, their gradients and its activations; embedding rows
// come and go through Batch. A bucket is a range of the flat gradient that is
// final before the backward pass ends, so that it can be all-reduced meanwhile.
//
// # Sources
//
// DLRM: Naumov et al., "Deep Learning Recommendation Model for Personalization
// and Recommendation Systems", 2019; layer order, tensor names and initial
// distributions as in the reference implementation.
//
// # Never
//
// A model knows nothing of ranks, transports or where rows live, and never looks
// at memory itself: all arithmetic goes through kernels.Stream.
package model
