package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/ecrec/ecrec/internal/uring"
)

// ring reports whether files can be read by io_uring, or names the replacement.
func ring(err error) Check {
	if err != nil {
		return Check{Status: Warn, Value: "refused", Detail: err.Error() + "; rows on a disk are read by preads instead, which is slower; " +
			"allow io_uring_setup and io_uring_enter in the container's seccomp profile, and see /proc/sys/kernel/io_uring_disabled"}
	}
	return Check{Status: OK, Value: fmt.Sprintf("works, up to %d reads at a time", uring.Depth)}
}

// tryRing reads a part of this program by io_uring.
func tryRing() error {
	r, err := uring.Open(uring.Depth)
	if err != nil {
		return err
	}
	defer r.Close()
	path, err := os.Executable()
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	want, got := make([]byte, 64<<10), make([]byte, 64<<10)
	if _, err := f.ReadAt(want, 1); err != nil {
		return err
	}
	if err := r.ReadAll(int(f.Fd()), []uring.Part{{At: 1, Bytes: got}}); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return errors.New("io_uring reads something else than a pread")
	}
	return nil
}
