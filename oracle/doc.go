// Package oracle plans which rows a step needs and where they come from. It is
// pure: ids in, plans out, no clock, no I/O, no goroutines.
//
// # Terms
//
// A lookup is one (sample, table) pair of a slice; lookup l of a slice with t
// tables is sample l/t, table l mod t. A row is needed once per rank and step,
// however many lookups name it. A plan lists the distinct rows of a slice by
// owner and, within an owner, by ascending slot, with the lookups of each row in
// sample order: the order in which its gradients are summed (DESIGN.md section 8).
//
// # Method
//
// Equal keys are brought together by a stable radix sort of (key, position)
// pairs packed in one word, so that sample order within a row and rank order
// across ranks come for free, nothing is hashed and nothing depends on chance.
// No call allocates once its buffers have grown to the size of a batch.
package oracle
