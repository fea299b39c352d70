//go:build mpi && cgo && mpich

package mpi

// The flags for MPICH. They stand in a file of their own, since the cache of builds tells
// packages apart by their files, not by what pkg-config says.

// #cgo pkg-config: mpich
import "C"
