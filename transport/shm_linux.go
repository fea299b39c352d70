package transport

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// segmentName identifies a segment and its pipes for a process on the same host, by the
// numbers of files of the process that made them. The secret is also in the segment, and
// proves that it is the right one.
type segmentName struct {
	pid, fd                          uint64
	makerWrites, readerWrites, reads uint64 // ends of the pipes that wake the maker, and the other side
	secret                           [secretBytes]byte
}

const secretBytes = 32

const segmentNameBytes = 5*8 + secretBytes

func (n *segmentName) encodeName() (b []byte) {
	for _, x := range []uint64{n.pid, n.fd, n.makerWrites, n.readerWrites, n.reads} {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return append(b, n.secret[:]...)
}

func decodeSegmentName(b []byte) (n segmentName) {
	for i, x := range []*uint64{&n.pid, &n.fd, &n.makerWrites, &n.readerWrites, &n.reads} {
		*x = binary.LittleEndian.Uint64(b[8*i:])
	}
	n.secret = [secretBytes]byte(b[5*8:])
	return n
}

// secretOffset is the position of the secret in a segment.
const secretOffset = 2048

const segmentSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// createSegment makes a segment, which never outlives its processes. The caller must call
// closeSpare when the peer has opened it, or will not.
func createSegment(generation uint64) (g *segment, name segmentName, closeSpare func(), err error) {
	fd, err := unix.MemfdCreate(fmt.Sprintf("ecrec generation %d", generation), unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, name, nil, err
	}
	g = &segment{bells: silentBells()}
	reads := -1
	name = segmentName{pid: uint64(os.Getpid()), fd: uint64(fd)}
	if err = unix.Ftruncate(fd, segmentBytes); err == nil {
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, segmentSeals); err == nil {
			g.mem, err = mapSegment(fd)
		}
	}
	if err == nil {
		reads, err = g.createBells()
	}
	if err != nil {
		_ = unix.Close(fd)
		g.closeSegment()
		return nil, name, nil, err
	}
	name.makerWrites, name.readerWrites, name.reads = uint64(g.here), uint64(g.there), uint64(reads)
	_, _ = rand.Read(name.secret[:])
	copy(g.mem[secretOffset:], name.secret[:])
	return g, name, func() { _, _ = unix.Close(fd), unix.Close(reads) }, nil
}

// openSegment opens the segment that another process made.
func openSegment(name segmentName) (*segment, error) {
	file, err := os.OpenFile(fileOf(name.pid, name.fd), os.O_RDWR, 0)
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
	g := &segment{bells: silentBells()}
	if g.mem, err = mapSegment(fd); err != nil {
		return nil, err
	}
	if !bytes.Equal(g.mem[secretOffset:secretOffset+secretBytes], name.secret[:]) {
		g.closeSegment()
		return nil, fmt.Errorf("file %d of process %d is another segment", name.fd, name.pid)
	}
	if err := g.openBells(name); err != nil {
		g.closeSegment()
		return nil, err
	}
	return g, nil
}

// fileOf is the path of an open file of another process.
func fileOf(pid, fd uint64) string { return fmt.Sprintf("/proc/%d/fd/%d", pid, fd) }

// closeSegment unmaps the memory and closes the pipes. No goroutine uses them any more.
func (g *segment) closeSegment() {
	if g.mem != nil {
		_ = unix.Munmap(g.mem)
	}
	g.closeBells()
}

func mapSegment(fd int) ([]byte, error) {
	return unix.Mmap(fd, 0, segmentBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
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
