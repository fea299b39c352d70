package arena

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

type file struct{ fd int }

func (f file) number() uint64 { return uint64(f.fd) }

func processID() uint64 { return uint64(os.Getpid()) }

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// createFile makes an arena's memory. It is not counted as used until it is
// touched, and goes when the last process that maps it has gone.
func createFile() (f file, mem []byte, err error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return f, nil, fmt.Errorf("%w: sysinfo: %w", ErrUnavailable, err)
	}
	size := roundUp(int64(info.Totalram)*int64(info.Unit), 1<<30)
	fd, err := unix.MemfdCreate("ecrec arena", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return f, nil, fmt.Errorf("%w: memfd_create: %w", ErrUnavailable, err)
	}
	if err = unix.Ftruncate(fd, size); err == nil {
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err == nil {
			mem, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return f, nil, fmt.Errorf("%w: %d bytes: %w", ErrUnavailable, size, err)
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // where the system has them for shared memory
	_ = unix.Madvise(mem, unix.MADV_DONTDUMP)
	return file{fd}, mem, nil
}

// punch gives pages back.
func (f file) punch(from, n int64) error {
	return unix.Fallocate(f.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, n)
}

// Open maps another process's arena. Close it.
func Open(name Name) (*View, error) {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", name.PID, name.FD), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	have, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil || have != seals || uint64(info.Size()) != name.Bytes {
		return nil, fmt.Errorf("arena: file %d of process %d is no arena", name.FD, name.PID)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, int(name.Bytes), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(mem[:idBytes], name.ID[:]) {
		_ = unix.Munmap(mem)
		return nil, fmt.Errorf("arena: file %d of process %d is another arena", name.FD, name.PID)
	}
	return &View{mem}, nil
}

// Close unmaps the arena.
func (v *View) Close() {
	_ = unix.Munmap(v.mem)
	v.mem = nil
}
