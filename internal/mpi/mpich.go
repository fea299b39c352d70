//go:build mpi && cgo && mpich

package mpi

// The flags for MPICH. They are in a file of their own because the build cache
// distinguishes packages by their files, not by the output of pkg-config.

// #cgo pkg-config: mpich
import "C"
