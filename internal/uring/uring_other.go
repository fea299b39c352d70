//go:build !linux

package uring

import "errors"

// Ring does not exist on this system.
type Ring struct{}

// Open returns an error.
func Open(int) (*Ring, error) { return nil, refused("io_uring_setup", errors.ErrUnsupported) }

// ReadAll returns an error.
func (*Ring) ReadAll(int, []Part) error { return refused("io_uring_enter", errors.ErrUnsupported) }

// Close does nothing.
func (*Ring) Close() {}
