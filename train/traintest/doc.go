// Package traintest is the part of the conformance suites that needs whole jobs.
//
// Kind trains a model kind on several ranks and processes, in all cache modes, from
// a checkpoint and from a file, and through losses of ranks. Package
// model/modeltest checks the kind itself.
package traintest
