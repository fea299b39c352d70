package uring

import (
	"cmp"
	"errors"
	"io"
	"math"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ring reads parts of files. One goroutine uses it at a time.
type Ring struct {
	kernel kernel
	queues
	tail   uint32  // of the requests that are written; the kernel sees them from submitAndWait on
	blocks []byte  // blockBytes for each piece
	pieces []piece // by block
	free   []int   // blocks
	err    error   // why the ring can't be used
}

// kernel is the system calls of a ring.
type kernel interface {
	// enter submits requests and waits for completions. It returns how many requests were taken.
	enter(submit, wait uint32) (int, error)
	// release ends the ring.
	release()
}

// queues are shared with the kernel. Their lengths are powers of two.
type queues struct {
	sqHead, sqTail *uint32
	requests       []request
	cqHead, cqTail *uint32
	completions    []completion
}

// piece is a piece of a part. A block holds it.
type piece struct {
	index     int   // of the part
	from      int64 // the offset of the block in the file
	skip, end int   // bytes of the block that belong to the part
	to        []byte
	got       int // bytes of the block that have been read
	tries     int // failed ones since the last that read something
}

// maxTries limits the repetitions of a request that read nothing.
const maxTries = 1000

// newRing makes a ring of queues that have room for depth requests.
func newRing(k kernel, q queues, depth int) (*Ring, error) {
	blocks, err := unix.Mmap(-1, 0, depth*blockBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, refused("mmap", err)
	}
	r := &Ring{kernel: k, queues: q, tail: atomic.LoadUint32(q.sqTail), blocks: blocks, pieces: make([]piece, depth)}
	for i := range depth {
		r.free = append(r.free, depth-1-i)
	}
	return r, nil
}

// Close ends the ring.
func (r *Ring) Close() {
	if r.err == nil {
		r.refuse(refused("io_uring_enter", errors.New("the ring is closed")))
	}
}

// refuse ends the ring for a reason. If requests are under way, their blocks stay mapped.
func (r *Ring) refuse(err error) {
	r.err = err
	r.kernel.release()
	if len(r.free) == len(r.pieces) {
		_ = unix.Munmap(r.blocks) // it was mapped
	}
	r.blocks = nil
}

// ReadAll reads all parts of a file. The error is a *PartError of the first part that fails; later parts may not have been read. Any
// other error wraps ErrRefused: the ring can't be used any more, and all parts must be read in another way.
func (r *Ring) ReadAll(fd int, parts []Part) error {
	if r.err != nil {
		return r.err
	}
	b := batch{Ring: r, fd: int32(fd), parts: parts}
	for {
		b.submitPieces()
		if len(r.free) == len(r.pieces) {
			return b.failure()
		}
		if err := r.submitAndWait(); err != nil {
			r.refuse(err)
			return r.err
		}
		b.takeCompletions()
	}
}

// batch is a call of ReadAll.
type batch struct {
	*Ring
	fd     int32
	parts  []Part
	next   int   // the first part that is not under way completely
	done   int64 // bytes of it that are
	failed *PartError
}

func (b *batch) failure() error {
	if b.failed == nil {
		return nil
	}
	return b.failed
}

// fail keeps the error of the first part that failed.
func (b *batch) fail(index int, err error) {
	if b.failed == nil || index < b.failed.Index {
		b.failed = &PartError{index, b.parts[index].At, err}
	}
}

// submitPieces gives free blocks the next pieces. After an error there are no more.
func (b *batch) submitPieces() {
	for len(b.free) > 0 && b.next < len(b.parts) && b.failed == nil {
		p := &b.parts[b.next]
		if p.At < 0 || p.At > math.MaxInt64-int64(len(p.Bytes))-Align {
			b.fail(b.next, os.ErrInvalid)
			return
		}
		if b.done == int64(len(p.Bytes)) {
			b.next, b.done = b.next+1, 0
			continue
		}
		at := p.At + b.done
		skip := int(at % Align)
		n := min(len(p.Bytes)-int(b.done), blockBytes-skip)
		i := b.free[len(b.free)-1]
		b.free = b.free[:len(b.free)-1]
		b.pieces[i] = piece{index: b.next, from: at - int64(skip), skip: skip, end: skip + n, to: p.Bytes[b.done:][:n]}
		b.done += int64(n)
		b.request(i)
	}
}

// request requests the rest of a piece. It ends at a multiple of Align, and also begins there unless it continues a short read.
func (b *batch) request(i int) {
	p := &b.pieces[i]
	block := b.blocks[i*blockBytes : (i+1)*blockBytes]
	end := (p.end + Align - 1) &^ (Align - 1)
	b.requests[b.tail&uint32(len(b.requests)-1)] = request{opcode: opRead, fd: b.fd, offset: uint64(p.from) + uint64(p.got),
		address: uint64(uintptr(unsafe.Pointer(&block[p.got]))), length: uint32(end - p.got), user: uint64(i)}
	b.tail++
}

// takeCompletions takes all completions that are there.
func (b *batch) takeCompletions() {
	head, tail := atomic.LoadUint32(b.cqHead), atomic.LoadUint32(b.cqTail)
	for ; head != tail; head++ {
		c := b.completions[head&uint32(len(b.completions)-1)]
		if i := int(c.user); b.complete(i, c.result) {
			b.free = append(b.free, i)
		} else {
			b.request(i)
		}
	}
	atomic.StoreUint32(b.cqHead, head)
}

// complete takes the result of a request: the number of bytes, or a negated error. It reports whether the piece needs no more
// requests.
func (b *batch) complete(i int, result int32) bool {
	p := &b.pieces[i]
	dropped := b.failed != nil && b.failed.Index <= p.index
	if result > 0 {
		p.got, p.tries = p.got+int(result), 0
		if p.got >= p.end {
			copy(p.to, b.blocks[i*blockBytes:][p.skip:p.end])
			return true
		}
		return dropped
	}
	switch errno := unix.Errno(-result); {
	case result == 0, errno == unix.EINVAL && p.got%Align != 0:
		// With O_DIRECT, only a read that reaches the end of the file ends within a block, and one that begins there is refused.
		b.fail(p.index, io.ErrUnexpectedEOF)
	case (errno == unix.EINTR || errno == unix.EAGAIN || errno == unix.ECANCELED) && p.tries < maxTries:
		p.tries++
		return dropped
	default:
		b.fail(p.index, errno)
	}
	return true
}

// submitAndWait submits all requests, and waits for at least one completion. Requests that are not taken by then are submitted
// with the next ones.
func (r *Ring) submitAndWait() error {
	atomic.StoreUint32(r.sqTail, r.tail)
	for tries := 0; ; {
		before := r.untaken()
		_, err := r.kernel.enter(before, 1)
		after := r.untaken()
		switch {
		case err != nil && !isTransient(err):
			return refused("io_uring_enter", err)
		case atomic.LoadUint32(r.cqTail) != atomic.LoadUint32(r.cqHead):
			return nil
		case errors.Is(err, unix.EINTR), after < before:
			continue
		}
		if tries++; tries > maxTries {
			return refused("io_uring_enter", cmp.Or(err, errNoEffect))
		}
		// The kernel lacks memory for requests. One that is under way gives some back.
		if len(r.pieces)-len(r.free) > int(after) {
			if _, err := r.kernel.enter(0, 1); err != nil && !isTransient(err) {
				return refused("io_uring_enter", err)
			}
		} else {
			_ = unix.Nanosleep(&unix.Timespec{Nsec: 100_000}, nil) // if it is interrupted, the next try is early
		}
	}
}

var errNoEffect = errors.New("it has no effect")

// untaken is the number of requests that the kernel has not taken.
func (r *Ring) untaken() uint32 { return r.tail - atomic.LoadUint32(r.sqHead) }

// isTransient reports whether a call may succeed later.
func isTransient(err error) bool {
	return errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EBUSY)
}
