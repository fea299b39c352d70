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

// limit is the hard limit, or the soft one where nothing raises that: of open
// files Go takes all it may.
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

// space is the size of dir's file system, and what a user may still write there.
func space(dir string) (total, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize, nil
}

// clockError is by how much the kernel deems its clock to be off at most.
func clockError() (time.Duration, error) {
	var t unix.Timex // asks and sets nothing
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return 0, os.NewSyscallError("adjtimex", err)
	}
	if state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0 {
		return 0, errUnsynchronised{}
	}
	return time.Duration(t.Maxerror) * time.Microsecond, nil
}

// writeDirect writes a page into a file past the page cache.
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
