package directio

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openDirect opens a file for direct I/O if the file system supports it.
func openDirect(path string, flag int, perm os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag|unix.O_DIRECT, perm)
	if errors.Is(err, unix.EINVAL) {
		return os.OpenFile(path, flag, perm)
	}
	return f, err
}

// direct runs io. If the file system refuses direct I/O only now, it turns direct I/O
// off and runs io again.
func direct(f *os.File, io func() error) error {
	err := io()
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	flags, ferr := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if ferr != nil || flags&unix.O_DIRECT == 0 {
		return err
	}
	if _, ferr = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags&^unix.O_DIRECT); ferr != nil {
		return err
	}
	return io()
}

// reserve reserves size bytes on the disk. On file systems that cannot, a full disk is an
// error of a later write.
func reserve(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}
