// Package paired compares two ways of doing one thing that were measured by turns.
//
// A pair is one turn of both ways: neighbours in time, so that a machine whose speed drifts changes both. The result of a
// comparison is the median of the ratios of the pairs, never the ratio of two medians.
//
// # Interval
//
// The 95 % interval of the median begins with the percentile bootstrap: medians of pairs drawn again with replacement, from a
// fixed seed. With few pairs that interval is too narrow: of 7 pairs it holds the true median in 87 % of all runs. So it is
// widened to the order statistics between which the median is in at least 95 % of all runs, for any distribution (the sign
// test's interval). The tests count its coverage in simulated runs. Fewer than LeastPairs pairs have no such order statistics:
// their interval is from the least to the greatest value, and IsKnown is false.
//
// The interval holds for pairs that are independent. It leaves out the influences that all pairs of a run have in common: the machine,
// the build, the order of the ways within a turn.
//
// # Invariants
//
// The package is pure: equal values give equal intervals. Low <= Median <= High.
package paired
