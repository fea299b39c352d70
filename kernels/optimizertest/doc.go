// Package optimizertest is the conformance suite of update rules: a rule gives the
// bits of a reference in plain Go, for dense weights and for rows, with any number of
// threads, on every device, and touches nothing else.
package optimizertest
