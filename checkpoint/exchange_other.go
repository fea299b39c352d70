//go:build !linux

package checkpoint

import "golang.org/x/sys/unix"

// exchange is not supported on this system.
func exchange(_, _ string) error { return unix.ENOSYS }
