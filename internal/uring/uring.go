package uring

import (
	"errors"
	"fmt"
)

// Part is a part of a file that is read to Bytes.
type Part struct {
	At    int64 // any offset
	Bytes []byte
}

const (
	// Align is the unit of offsets, lengths and addresses of requests. No disk needs more for O_DIRECT.
	Align = 4096
	// blockBytes is the greatest length of a request.
	blockBytes = 32 << 10
	// Depth is a good number of requests under way: a disk is hardly faster with more.
	Depth = 128
)

// ErrRefused is wrapped by errors about the kernel, or its configuration, rather than about a part.
var ErrRefused = errors.New("io_uring is refused")

func refused(call string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrRefused, call, err)
}

// PartError is the error of one part.
type PartError struct {
	Index int   // in the list of parts
	At    int64 // its offset
	Err   error
}

func (e *PartError) Error() string { return fmt.Sprintf("offset %d: %v", e.At, e.Err) }

func (e *PartError) Unwrap() error { return e.Err }
