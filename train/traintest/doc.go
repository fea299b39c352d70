// Package traintest is the part of the conformance suites that needs whole jobs.
//
// Kind trains a model kind on several ranks and processes, in all cache modes, from
// a checkpoint and from a file, and through losses of ranks. Package
// model/modeltest checks the kind itself.
//
// Forms lists the forms of the repository's kinds. Tests of other builds, launchers
// and lost processes train them too.
package traintest
