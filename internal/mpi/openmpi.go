//go:build mpi && cgo && !mpich

package mpi

// The flags for Open MPI. They are in a file of their own because the build cache
// distinguishes packages by their files, not by the output of pkg-config.

// #cgo pkg-config: ompi-c
import "C"
