// Package model computes recommendation models on one rank's slice of a batch:
// a dense tower, an interaction over embedding rows, a loss.
//
// # Terms
//
// b is the number of samples of the slice, t of features that look up a table, d of
// weights of an embedding, and w of weights of a row: d, and the weights of its other
// parts. A cell is a sample and a feature; a bag is the ids of a cell, one or any number. A
// model
// owns its dense parameters, their gradients and its activations. It gets embedding
// rows in a Batch and returns their gradients.
//
// A bucket is a range of the flat gradient that is final before the backward pass ends,
// so that it can be all-reduced during that pass. A kind is an entry of Kinds. Its Shape
// describes a model to other packages.
//
// # Sources
//
// DLRM: Naumov et al., "Deep Learning Recommendation Model for Personalization
// and Recommendation Systems", 2019; layer order, tensor names and initial
// distributions as in the reference implementation. The form with summed rows is that of
// ECRec (VLDB'23).
// Wide and deep: Cheng et al., "Wide & Deep Learning for Recommender Systems", 2016.
// Cross layers: Wang et al., "Deep & Cross Network for Ad Click Predictions", 2017 (vector),
// and "DCN V2: Improved Deep & Cross Network and Practical Lessons for Web-scale Learning to
// Rank Systems", 2021 (full and low-rank; stacked and parallel).
//
// # Never
//
// A model is independent of ranks, transports and the place of rows. It never reads
// memory itself: all arithmetic goes through kernels.Stream.
package model
