// Package auc computes the exact area under the ROC curve of predictions that
// are spread over ranks, in integers, so that it depends only on the set of
// (score, label) pairs. Ties count half (the Mann-Whitney statistic).
//
// Method: a prediction packs into one word whose order is that of the score.
// Ranks agree on ranges of scores that hold about equally many predictions
// (Splitters, from a histogram), send each prediction to the rank of its range,
// sort there, and combine three integers per rank (Partial, Combine).
package auc
