package doctor

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The limits of a process.
const (
	limitFiles     = unix.RLIMIT_NOFILE
	limitLocked    = unix.RLIMIT_MEMLOCK
	limitProcesses = unix.RLIMIT_NPROC
)

// limit returns the soft limit, or for open files the hard one: the Go runtime raises the soft limit
// of open files to it.
func limit(resource int) (uint64, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	if resource == limitFiles {
		return l.Max, nil
	}
	return l.Cur, nil
}

// space returns the size of dir's file system, and the bytes that a user may still write.
func space(dir string) (total, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize, nil
}

// clockError returns the kernel's estimate of the greatest error of its clock.
func clockError() (time.Duration, error) {
	var t unix.Timex // reads and sets nothing
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return 0, os.NewSyscallError("adjtimex", err)
	}
	if state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0 {
		return 0, errUnsynchronised{}
	}
	return time.Duration(t.Maxerror) * time.Microsecond, nil
}

// writeDirect writes a page to a file with O_DIRECT.
func writeDirect(path string) error {
	const page = 4096
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	room := make([]byte, 2*page)
	off := int(-uintptr(unsafe.Pointer(&room[0])) & (page - 1))
	_, err = f.Write(room[off : off+page])
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
