package kernels

import (
	"fmt"
	"unsafe"

	"github.com/ecrec/ecrec/internal/cuda"
)

// cudaStream is the CUDA backend's Stream. Operations are launched when they are called and
// done after Sync. The first that fails ends the stream: those after it do nothing, and
// Sync tells.
//
// Lists of indexes may lie in Go memory: they are copied to a ring of pinned memory, from
// which the GPU copies them, so that the caller may reuse them when the call returns.
type cudaStream struct {
	d    *cudaDevice
	s    *cuda.Stream
	err  error
	busy bool // something may be under way

	fault Buffer // a word that kernels write: see cuda/common.cuh

	rings []ring // lists are put into the last
	used  int    // bytes of it

	long, sums Buffer   // of segment sums: the long ones, and their sums
	pointers   []uint64 // scratch of Sum
	base       cudaBase
	products   *cuda.Products // nil: they are exact
	partial    Buffer         // column sums of chunks
	tile       int            // of products, a number of productTiles from 1 on; 0: the best (tests set it)
}

// cudaBase is the tables of a RowInit on the GPU.
type cudaBase struct {
	of         *int64
	tables     int
	buf, scale Buffer
}

func (s *cudaStream) fail(err error) {
	if s.err == nil && err != nil {
		s.err = fmt.Errorf("kernels: %w", err)
	}
}

func (s *cudaStream) Close() {
	if s.s == nil {
		return
	}
	_ = s.s.Sync() // who closes has seen to errors
	if s.products != nil {
		_ = s.products.Close()
	}
	for _, b := range []Buffer{s.fault, s.long, s.sums, s.partial, s.base.buf, s.base.scale} {
		s.d.Free(b)
	}
	for i := range s.rings {
		s.rings[i].free(s.d)
	}
	_ = s.s.Close()
	s.s = nil
}

func (s *cudaStream) Sync() error {
	if s.err == nil && s.busy {
		s.fail(s.s.Sync())
	}
	s.busy = false
	if s.err == nil {
		s.reuse()
		s.checkFault()
	}
	return s.err
}

var (
	cudaOps      = []string{"", "GatherRows", "ScatterRows", "XorRows", "FoldRows", "InitRows", "XorInit", "SumRows", "UpdateRows"}
	cudaOperands = []string{"", "index", "slots", "pos", "start", "first index", "second index"}
)

// Numbers of operations in faults: the places of their names in cudaOps.
const (
	opXorRows    = 3
	opFoldRows   = 4
	opSumRows    = 7
	opUpdateRows = 8
)

// checkFault panics where a kernel met an index that no row has: a broken precondition, as
// the CPU's operations find when they are called.
func (s *cudaStream) checkFault() {
	word := HostView[uint64](s.fault)
	x := word[0]
	if x == 0 {
		return
	}
	word[0] = 0
	op, operand, value := cudaOps[x>>40&0xff], cudaOperands[x>>32&0xff], int32(x)
	if operand == "start" {
		panic(fmt.Sprintf("kernels: %s: a segment ends at %d before it starts, or outside pos", op, value))
	}
	panic(fmt.Sprintf("kernels: %s: %s holds %d, outside the rows there are", op, operand, value))
}

// ringBytes is the least length of a ring.
const ringBytes = 1 << 20

// mostHeld is how long a list is at most that is uploaded by way of a ring, and all of them until
// the next Sync: to copy it there takes the CPU some milliseconds, in which the GPU goes on. Longer
// ones are waited for.
const mostHeld = 32 << 20

// ring is memory for lists on their way: written on the host, and copied to its mirror where
// an operation reads them there.
type ring struct{ host, mirror Buffer }

func (r *ring) free(d *cudaDevice) {
	d.Free(r.host)
	d.Free(r.mirror)
}

// stage copies a list to the GPU, where it stays until the next Sync. One that does not fit
// goes to a longer ring: what an operation has staged before it stays too.
func (s *cudaStream) stage(list []byte) uintptr {
	from, at := s.hold(list)
	if from.bytes == 0 {
		return 0
	}
	r := &s.rings[len(s.rings)-1]
	if r.mirror.bytes == 0 {
		var err error
		if r.mirror, err = s.d.Alloc(r.host.bytes, Working); err != nil {
			s.fail(err)
			return 0
		}
	}
	to := r.mirror.Slice(at, len(list))
	s.copy(to.ptr, from.ptr, len(list), false)
	return uintptr(to.ptr)
}

// hold copies a list to the last ring, at which place of it; to nothing where that fails.
func (s *cudaStream) hold(list []byte) (in Buffer, at int) {
	if s.err != nil || len(list) == 0 {
		return in, 0
	}
	if n := len(s.rings); n == 0 || s.used+len(list) > s.rings[n-1].host.bytes {
		bytes := max(ringBytes, 2*len(list))
		if n > 0 {
			bytes = max(bytes, min(2*s.rings[n-1].host.bytes, 2*mostHeld))
		}
		host, err := s.d.Alloc(bytes, Staging)
		if err != nil {
			s.fail(err)
			return in, 0
		}
		s.rings, s.used = append(s.rings, ring{host: host}), 0
	}
	in, at = s.rings[len(s.rings)-1].host.Slice(s.used, len(list)), s.used
	s.used += (len(list) + 255) &^ 255
	copy(in.Host(), list)
	return in, at
}

// held is how much waits in the rings.
func (s *cudaStream) held() int {
	bytes := s.used
	for i := range len(s.rings) - 1 {
		bytes += s.rings[i].host.bytes
	}
	return bytes
}

// copy copies bytes, where one of the ends is Go memory until it is done.
func (s *cudaStream) copy(to, from unsafe.Pointer, bytes int, wait bool) {
	s.busy = !wait
	s.fail(s.s.Copy(to, from, bytes, wait))
}

// reuse makes the rings empty, when all is done; the longest stays.
func (s *cudaStream) reuse() {
	s.used = 0
	for n := len(s.rings); n > 1; n = len(s.rings) {
		s.rings[0].free(s.d)
		s.rings = append(s.rings[:0], s.rings[1:]...)
	}
}

// grow makes one of the stream's own buffers longer; what it held is lost.
func (s *cudaStream) grow(b *Buffer, bytes int) {
	if b.bytes >= bytes || s.err != nil {
		return
	}
	if s.fail(s.s.Sync()); s.err == nil { // nothing uses it any more
		s.fail(Grow(s.d, b, bytes, Working))
	}
}

// run launches a kernel over blocks, which may be 0.
func (s *cudaStream) run(k cudaKernel, blocks, x, y, shared int, params unsafe.Pointer) {
	if s.err != nil || blocks == 0 {
		return
	}
	s.busy = true
	if err := s.s.Launch(s.d.code.functions[k], blocks, x, y, shared, params); err != nil {
		s.fail(fmt.Errorf("%s: %w", cudaNames[k], err))
	}
}

// blocksOf is how many blocks work on n items, so many to a block: enough to fill the GPU
// a few times.
func (s *cudaStream) blocksOf(n, each int) int {
	return min((n+each-1)/each, s.mostBlocks())
}

func (s *cudaStream) mostBlocks() int { return 16 * s.d.Processors }

// address is where the GPU finds a buffer's bytes.
func (s *cudaStream) address(op, name string, b Buffer) uintptr {
	if b.bytes == 0 {
		return 0
	}
	if !b.device {
		panic(fmt.Sprintf("kernels: %s: %s is memory that the GPU cannot address", op, name))
	}
	return uintptr(b.ptr)
}

// indexes is a list of n int32, from wherever it lies.
func (s *cudaStream) indexes(op, name string, b Buffer, n int) uintptr {
	if b.Floats() != n {
		panic(fmt.Sprintf("kernels: %s: %s holds %d indexes, want %d", op, name, b.Floats(), n))
	}
	if b.device || n == 0 {
		return uintptr(b.ptr)
	}
	return s.stage(b.Host())
}

// matrix is a matrix of (rows, cols).
func (s *cudaStream) matrix(op, name string, m Matrix, rows, cols int) cudaMat {
	if !checkMatrix(op, name, m, rows, cols) {
		return cudaMat{}
	}
	return cudaMat{s.address(op, name, m.Buf), int64(m.Stride)}
}

// threadsOf lays a block of 256 threads over rows of n items: x threads for a row.
func threadsOf(n int) (x, y int) {
	x = 1
	for x < n && x < 32 {
		x *= 2
	}
	return x, 256 / x
}

// by4 reports whether rows of d floats of all these can be moved four at a time.
func by4(d int, all ...cudaMat) bool {
	bits := uintptr(4 * d)
	for _, m := range all {
		bits |= m.p | uintptr(4*m.stride)
	}
	return bits%16 == 0
}

func (s *cudaStream) Upload(dst Buffer, src []byte) {
	if len(src) != dst.bytes {
		panic(fmt.Sprintf("kernels: Upload of %d bytes to %d", len(src), dst.bytes))
	}
	if len(src) == 0 || s.err != nil {
		return
	}
	if dst.host {
		if s.Sync() == nil {
			copy(dst.Host(), src)
		}
		return
	}
	if len(src) > mostHeld {
		s.copy(dst.ptr, unsafe.Pointer(&src[0]), len(src), true)
		return
	}
	if s.held()+len(src) > mostHeld && s.Sync() != nil {
		return
	}
	if from, _ := s.hold(src); from.bytes > 0 {
		s.copy(dst.ptr, from.ptr, len(src), false)
	}
}

func (s *cudaStream) Download(dst []byte, src Buffer) {
	if len(dst) != src.bytes {
		panic(fmt.Sprintf("kernels: Download of %d bytes to %d", src.bytes, len(dst)))
	}
	switch {
	case len(dst) == 0 || s.err != nil:
	case src.host:
		if s.Sync() == nil {
			copy(dst, src.Host())
		}
	default:
		s.copy(unsafe.Pointer(&dst[0]), src.ptr, len(dst), true)
	}
}

func (s *cudaStream) Copy(dst, src Buffer) {
	if dst.bytes != src.bytes {
		panic(fmt.Sprintf("kernels: Copy of %d bytes to %d", src.bytes, dst.bytes))
	}
	switch {
	case dst.bytes == 0 || s.err != nil:
	case !dst.device && !src.device:
		if s.Sync() == nil {
			copy(dst.Host(), src.Host())
		}
	default:
		s.copy(dst.ptr, src.ptr, dst.bytes, !dst.device || !src.device)
	}
}

func (s *cudaStream) Zero(dst Buffer) {
	if dst.bytes == 0 || s.err != nil {
		return
	}
	if dst.device {
		s.busy = true
		s.fail(s.s.Clear(dst.ptr, dst.bytes))
	} else if s.Sync() == nil {
		clear(dst.Host())
	}
}

// CUDA is what a stream of the CUDA backend runs on, for who gives the GPU work beside it; not
// ok for other streams.
func CUDA(s Stream) (*cuda.Context, *cuda.Stream, bool) {
	if c, ok := s.(*cudaStream); ok && c.err == nil {
		return c.d.Context, c.s, true
	}
	return nil, nil, false
}

// GPU is the identity of a CUDA backend's GPU, not ok for other devices.
func GPU(d Device) (id [16]byte, ok bool) {
	c, ok := d.(*cudaDevice)
	if ok {
		id = c.UUID
	}
	return id, ok
}
