package directio

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// BlockBytes is how much moves at a time. Larger blocks were slower: they leave
	// the processor's cache between being filled and being written.
	BlockBytes = 1 << 20
	// Blocks is how many a Reader or Writer has.
	Blocks = 3
	// align is what O_DIRECT asks of memory, offsets and lengths; no disk asks more.
	align = 4096
)

// aligned returns n bytes that begin at a multiple of align.
func aligned(n int) []byte {
	b := make([]byte, n+align)
	off := int(-uintptr(unsafe.Pointer(&b[0])) & (align - 1))
	return b[off : off+n : off+n]
}

func roundUp(n int) int { return (n + align - 1) &^ (align - 1) }

// openDirect opens a file past the page cache where the file system can.
func openDirect(path string, flag int, perm os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag|unix.O_DIRECT, perm)
	if errors.Is(err, unix.EINVAL) {
		return os.OpenFile(path, flag, perm)
	}
	return f, err
}

// direct runs io; if the file system refuses direct I/O only now, it turns that
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
