package arena

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/machine"
)

type file struct{ fd int }

func (f file) descriptor() uint64 { return uint64(f.fd) }

func processID() uint64 { return uint64(os.Getpid()) }

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// createFile makes an arena's memory. Pages count as used only when they are touched.
// The memory is freed when the last process that has the file ends.
func createFile() (f file, err error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return f, fmt.Errorf("%w: sysinfo: %w", ErrUnavailable, err)
	}
	size := roundUp(int64(info.Totalram)*int64(info.Unit), 1<<30)
	fd, err := unix.MemfdCreate("ecrec arena", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return f, fmt.Errorf("%w: memfd_create: %w", ErrUnavailable, err)
	}
	f = file{fd}
	if err = unix.Ftruncate(fd, size); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		f.closeFile()
		return f, fmt.Errorf("%w: %d bytes: %w", ErrUnavailable, size, err)
	}
	return f, nil
}

// adoptFile takes over a file that another process made by createFile.
func adoptFile(fd int) (f file, err error) {
	have, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || have != seals {
		return f, fmt.Errorf("%w: file %d is not an arena", ErrUnavailable, fd)
	}
	unix.CloseOnExec(fd)
	return file{fd}, nil
}

// handOver returns the file for other processes to inherit.
func (f file) handOver() *os.File { return os.NewFile(uintptr(f.fd), "arena") }

func fileOf(f *os.File) file { return file{int(f.Fd())} }

func (f file) closeFile() { _ = unix.Close(f.fd) }

// mapAll maps all of the file.
func (f file) mapAll() ([]byte, error) {
	var info unix.Stat_t
	if err := unix.Fstat(f.fd, &info); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err := checkAddressSpace(info.Size); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(f.fd, 0, int(info.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("%w: %d bytes: %w", ErrUnavailable, info.Size, err)
	}
	_ = unix.Madvise(mem, unix.MADV_DONTDUMP)
	return mem, nil
}

// adviseHugePages requests huge pages, if the system has them for shared memory.
func (f file) adviseHugePages(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }

// spaceLeft is the address space that an arena leaves to the rest of the process if there is
// a limit: Go's runtime ends a process that gets no more address space.
const spaceLeft = 2 << 30

// checkAddressSpace returns an error if the limit of the address space is too low to map
// bytes.
func checkAddressSpace(bytes int64) error {
	if left, limit, ok := machine.AddressSpaceLeft(); ok && left-bytes < spaceLeft {
		return fmt.Errorf("%w: %s of address space, of which ulimit -v allows %s", ErrUnavailable, machine.Size(bytes), machine.Size(limit))
	}
	return nil
}

const (
	// presentWindow is the number of bytes examined at once.
	presentWindow = 2 << 20
	// faultAround is the number of bytes that the system maps around a page that is read, as
	// far as they are physical (fault_around_bytes, unless it was changed).
	faultAround = 64 << 10
)

// mapPresent maps the pages that are already physical, so that writing them does not fault
// page by page. It makes no other page physical.
func (f file) mapPresent(mem []byte) {
	var info unix.Stat_t
	if err := unix.Fstat(f.fd, &info); err != nil || info.Blocks == 0 {
		return
	}
	present := make([]byte, presentWindow/granule)
	for ; len(mem) > 0; mem = mem[min(presentWindow, len(mem)):] {
		window := mem[:min(presentWindow, len(mem))]
		if err := mincore(window, present); err != nil {
			return
		}
		missing := func(p byte) bool { return p&1 == 0 }
		if !slices.ContainsFunc(present[:len(window)/granule], missing) && unix.Madvise(window, unix.MADV_POPULATE_WRITE) == nil {
			continue // all at once, if the system can
		}
		around := -1
		for i := range len(window) / granule {
			page := &window[i*granule]
			if at := int(uintptr(unsafe.Pointer(page)) / faultAround); present[i]&1 != 0 && at != around {
				around = at
				atomic.LoadInt32((*int32)(unsafe.Pointer(page))) // maps the pages around it too
			}
		}
	}
}

// mincore sets bit 0 of a byte for each page that is physical.
func mincore(mem, present []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)), uintptr(unsafe.Pointer(&present[0])))
	if errno != 0 {
		return errno
	}
	return nil
}

// populate makes pages physical; new ones are zero. Reserving them (fallocate) is not
// enough: reserved pages are cleared at their first touch and are not present before it, so
// mapPresent would skip them.
func (f file) populate(from, n int64) error {
	mem, err := unix.Mmap(f.fd, from, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	if err = unix.Madvise(mem, unix.MADV_POPULATE_WRITE); err == unix.EINVAL { // Linux before 5.14
		for at := 0; at < len(mem); at += granule {
			atomic.LoadInt32((*int32)(unsafe.Pointer(&mem[at])))
		}
		err = nil
	}
	return errors.Join(err, unix.Munmap(mem))
}

// punchHole returns pages to the system.
func (f file) punchHole(from, n int64) error {
	return unix.Fallocate(f.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, n)
}

// Open maps another process's arena. The caller must Close it.
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
		return nil, fmt.Errorf("arena: file %d of process %d is not an arena", name.FD, name.PID)
	}
	if err := checkAddressSpace(int64(name.Bytes)); err != nil {
		return nil, err
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
