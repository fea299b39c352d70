//go:build !mpi || !cgo

package mpi

import "errors"

// Built reports whether this binary can use MPI.
const Built = false

// Init returns the error that this binary was built without MPI.
func Init() (Comm, error) {
	return nil, errors.New("this binary was built without MPI; build one with make build-mpi")
}

// Library returns the MPI library's name and version.
func Library() string { return "" }

// Finalize ends MPI.
func Finalize() {}

// Abort ends all processes.
func Abort(int) {}
