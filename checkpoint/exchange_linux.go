package checkpoint

import "golang.org/x/sys/unix"

// exchange swaps two names atomically. The error is EINVAL or ENOSYS if the system or the
// file system cannot.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
