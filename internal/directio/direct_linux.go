package directio

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// OpenFile opens a file for direct I/O if the file system supports it.
func OpenFile(path string, flag int, perm os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag, perm)
	if err == nil {
		_ = set(f, true) // not at once: some file systems then create the file, and fail
	}
	return f, err
}

// Enabled reports whether direct I/O is used for a file.
func Enabled(f *os.File) bool {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_DIRECT != 0
}

// set turns direct I/O on or off.
func set(f *os.File, on bool) error {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	flags &^= unix.O_DIRECT
	if on {
		flags |= unix.O_DIRECT
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags)
	return err
}

// Do runs io. If the file system refuses direct I/O only now, Do turns it off and runs io again. Another goroutine may have
// turned it off meanwhile.
func Do(f *os.File, io func() error) error {
	err := io()
	if !errors.Is(err, unix.EINVAL) || set(f, false) != nil {
		return err
	}
	return io()
}

// reserve reserves size bytes on the disk. On file systems that cannot, a full disk is an
// error of a later write.
func reserve(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}
