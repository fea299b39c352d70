package transport

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// segmentName identifies a segment for a process on the same host. The secret is also in
// the segment, and proves that it is the right one.
type segmentName struct {
	pid, fd uint64
	secret  [secretBytes]byte
}

const secretBytes = 32

const segmentNameBytes = 48

func (n *segmentName) encodeName() []byte {
	b := binary.LittleEndian.AppendUint64(nil, n.pid)
	b = binary.LittleEndian.AppendUint64(b, n.fd)
	return append(b, n.secret[:]...)
}

func decodeSegmentName(b []byte) segmentName {
	return segmentName{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), [32]byte(b[16:48])}
}

// secretOffset is the position of the secret in a segment.
const secretOffset = 2048

const segmentSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// createSegment makes anonymous shared memory, which never outlives its processes. The
// caller must close the file when the peer has opened it.
func createSegment(generation uint64) (mem []byte, name segmentName, file *os.File, err error) {
	fd, err := unix.MemfdCreate(fmt.Sprintf("ecrec generation %d", generation), unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, name, nil, err
	}
	file = os.NewFile(uintptr(fd), "segment")
	name = segmentName{pid: uint64(os.Getpid()), fd: uint64(fd)}
	if err = unix.Ftruncate(fd, segmentBytes); err == nil {
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, segmentSeals); err == nil {
			mem, err = mapSegment(fd)
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, name, nil, err
	}
	_, _ = rand.Read(name.secret[:])
	copy(mem[secretOffset:], name.secret[:])
	return mem, name, file, nil
}

// openSegment maps the segment that another process made.
func openSegment(name segmentName) ([]byte, error) {
	file, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", name.pid, name.fd), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	fd := int(file.Fd())
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil || seals != segmentSeals || info.Size() != segmentBytes {
		return nil, fmt.Errorf("file %d of process %d is not a segment", name.fd, name.pid)
	}
	mem, err := mapSegment(fd)
	if err == nil && !bytes.Equal(mem[secretOffset:secretOffset+secretBytes], name.secret[:]) {
		unmapSegment(mem)
		return nil, fmt.Errorf("file %d of process %d is another segment", name.fd, name.pid)
	}
	return mem, err
}

func mapSegment(fd int) ([]byte, error) {
	return unix.Mmap(fd, 0, segmentBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
}

func unmapSegment(mem []byte) { _ = unix.Munmap(mem) }

const (
	futexWaitOp = 0 // FUTEX_WAIT, not private: the word is shared
	futexWakeOp = 1
)

// futexWait sleeps while word has the value seen. It may return early.
func futexWait(word *atomic.Uint32, seen uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWaitOp, uintptr(seen), 0, 0, 0)
}

func futexWake(word *atomic.Uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWakeOp, 1, 0, 0, 0)
}

// readMemory copies from two places in a process's memory. It reports whether all bytes
// were read.
func readMemory(pid int, p []byte, at uintptr, p2 []byte, at2 uintptr) bool {
	local := [2]unix.Iovec{{Base: unsafe.SliceData(p)}, {Base: unsafe.SliceData(p2)}}
	local[0].SetLen(len(p))
	local[1].SetLen(len(p2))
	remote := [2]unix.RemoteIovec{{Base: at, Len: len(p)}, {Base: at2, Len: len(p2)}}
	n, err := unix.ProcessVMReadv(pid, local[:], remote[:], 0)
	return err == nil && n == len(p)+len(p2)
}

func processID() int { return os.Getpid() }

// osYield lets another thread run on this core: the peer may be waiting for it.
func osYield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
