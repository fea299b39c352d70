//go:build !mpi || !cgo

package mpi

import "errors"

// Built says whether this binary can use MPI.
const Built = false

// Init initialises MPI; in this binary it fails.
func Init() (Comm, error) {
	return nil, errors.New("this binary was built without MPI; build one with make build-mpi")
}

// Library is the MPI library's name and version.
func Library() string { return "" }

// Finalize ends MPI.
func Finalize() {}

// Abort ends all processes.
func Abort(int) {}
