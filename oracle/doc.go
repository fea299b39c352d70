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
// A plan numbers its distinct rows by hashing, sorts only those (stable radix
// sort), and deals the lookups out in sample order. An owner merges the lists it
// gets, each ascending, two by two, with rank order within a slot. Neither the
// hash nor what earlier calls left behind changes a plan: it is a function of the
// input. No call allocates once its buffers have grown to the size of a batch.
package oracle
