package uring

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's interface, of linux/io_uring.h.

const (
	opRead = 22 // IORING_OP_READ

	enterGetEvents = 1 << 0 // IORING_ENTER_GETEVENTS

	featSingleMap  = 1 << 0 // IORING_FEAT_SINGLE_MMAP
	featCurrentPos = 1 << 3 // IORING_FEAT_RW_CUR_POS, of the first kernel that has opRead

	offsetQueues   = 0          // IORING_OFF_SQ_RING
	offsetRequests = 0x10000000 // IORING_OFF_SQES
)

// request is struct io_uring_sqe.
type request struct {
	opcode, flags uint8
	ioprio        uint16
	fd            int32
	offset        uint64
	address       uint64
	length        uint32
	rwFlags       uint32
	user          uint64
	_             [3]uint64
}

// completion is struct io_uring_cqe.
type completion struct {
	user   uint64
	result int32
	flags  uint32
}

// params is struct io_uring_params.
type params struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	_                                                                      [3]uint32

	sq struct {
		head, tail, ringMask, ringEntries, flags, dropped, array, _ uint32
		_                                                           uint64
	}
	cq struct {
		head, tail, ringMask, ringEntries, overflow, cqes, flags, _ uint32
		_                                                           uint64
	}
}

// Open makes a ring with up to depth requests under way. The error wraps ErrRefused.
func Open(depth int) (*Ring, error) {
	var p params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(depth), uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, refused("io_uring_setup", errno)
	}
	s := &system{fd: int(fd)}
	if p.features&featSingleMap == 0 || p.features&featCurrentPos == 0 {
		s.release()
		return nil, refused("io_uring_setup", errors.New("the kernel is older than 5.6"))
	}
	q, err := s.mapQueues(&p)
	if err != nil {
		s.release()
		return nil, refused("mmap", err)
	}
	r, err := newRing(s, q, depth)
	if err != nil {
		s.release()
	}
	return r, err
}

// system is the kernel of this machine.
type system struct {
	fd     int
	mapped [][]byte
	lost   bool // fd is closed, or of another file
}

func (s *system) mapBytes(offset int64, n int) ([]byte, error) {
	b, err := unix.Mmap(s.fd, offset, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err == nil {
		s.mapped = append(s.mapped, b)
	}
	return b, err
}

// mapQueues maps the queues, at the offsets of the kernel.
func (s *system) mapQueues(p *params) (q queues, err error) {
	n := max(p.sq.array+4*p.sqEntries, p.cq.cqes+p.cqEntries*uint32(unsafe.Sizeof(completion{})))
	b, err := s.mapBytes(offsetQueues, int(n))
	if err != nil {
		return q, err
	}
	e, err := s.mapBytes(offsetRequests, int(p.sqEntries)*int(unsafe.Sizeof(request{})))
	if err != nil {
		return q, err
	}
	word := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&b[offset])) }
	for i := range p.sqEntries {
		*word(p.sq.array + 4*i) = i // requests are submitted in the order of their places
	}
	return queues{sqHead: word(p.sq.head), sqTail: word(p.sq.tail), cqHead: word(p.cq.head), cqTail: word(p.cq.tail),
		requests:    unsafe.Slice((*request)(unsafe.Pointer(&e[0])), p.sqEntries),
		completions: unsafe.Slice((*completion)(unsafe.Pointer(&b[p.cq.cqes])), p.cqEntries)}, nil
}

func (s *system) enter(submit, wait uint32) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(s.fd), uintptr(submit), uintptr(wait), enterGetEvents, 0, 0)
	if errno != 0 {
		s.lost = s.lost || errno == unix.EBADF || errno == unix.EOPNOTSUPP
		return 0, errno
	}
	return int(n), nil
}

// release closes the ring. The kernel ends the requests under way, or cancels them, by itself.
func (s *system) release() {
	for _, b := range s.mapped {
		_ = unix.Munmap(b) // it was mapped
	}
	s.mapped = nil
	if !s.lost {
		_ = unix.Close(s.fd) // nothing depends on it
	}
}
