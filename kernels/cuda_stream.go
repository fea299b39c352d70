package kernels

import (
	"fmt"
	"unsafe"

	"github.com/ecrec/ecrec/internal/cuda"
)

// cudaStream is the CUDA backend's Stream. Operations are launched when they are called and
// done after Sync. The first one that fails ends the stream: later ones do nothing, and
// Sync returns its error.
//
// Lists of indexes may be in Go memory. They are copied to a ring of pinned memory, from
// which the GPU copies them, so that the caller may reuse them when the call returns.
type cudaStream struct {
	cudaNorms

	d    *cudaDevice
	s    *cuda.Stream
	err  error
	busy bool // an operation may be in progress

	fault Buffer // a word that kernels write: see cuda/common.cuh

	rings []ring // lists are copied to the last
	used  int    // bytes of the last

	long, sums Buffer   // the list of long segments, and their sums
	turn       int32    // 0 or 1 in turn: the counters of long in use
	pointers   []uint64 // scratch of Sum
	base       cudaBase
	products   *cuda.Products // of cuBLAS; nil: no product has used it
	partial    Buffer         // column sums of chunks
	digits     Buffer         // scratch of products of pieces
	digitLimit int            // not 0: instead of mostDigitBytes (tests set it)
	tile       int            // 1 + the index in productTiles or exactTiles that products use; 0: the best (tests set it)
}

// cudaBase holds the tables of a RowInit on the GPU.
type cudaBase struct {
	of         *int64
	scales     *float32
	buf, scale Buffer
}

func (s *cudaStream) setError(err error) {
	if s.err == nil && err != nil {
		s.err = fmt.Errorf("kernels: %w", err)
	}
}

func (s *cudaStream) Close() {
	if s.s == nil {
		return
	}
	_ = s.s.Sync() // the caller has checked for errors by Sync
	if s.products != nil {
		_ = s.products.Close()
	}
	for _, b := range []Buffer{s.fault, s.long, s.sums, s.partial, s.digits, s.base.buf, s.base.scale} {
		s.d.Free(b)
	}
	for i := range s.rings {
		s.rings[i].freeRing(s.d)
	}
	_ = s.s.Close()
	s.s = nil
}

func (s *cudaStream) Sync() error {
	if s.err == nil && s.busy {
		s.setError(s.s.Sync())
	}
	s.busy = false
	if s.err == nil {
		s.resetRings()
		s.checkFault()
	}
	return s.err
}

var (
	cudaOps = []string{"", "GatherRows", "ScatterRows", "XorRows", "FoldRows", "InitRows", "XorInit", "SumRows",
		"UpdateRows", "UpdateDense", "PoolRows", "SumWeighted", "DivideCells"}
	cudaOperands = []string{"", "index", "slots", "pos", "start", "first index", "second index", "rule"}
)

// Numbers of operations in faults: the places of their names in cudaOps.
const (
	opXorRows     = 3
	opFoldRows    = 4
	opSumRows     = 7
	opUpdateRows  = 8
	opSumWeighted = 11
)

// checkFault panics if a kernel met an index outside the rows: a broken precondition, which
// the CPU's operations check when they are called.
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
	if operand == "rule" {
		panic(fmt.Sprintf("kernels: %s: the CUDA kernels do not have update rule %d; add it to cuda/optimizer.cuh", op, value))
	}
	panic(fmt.Sprintf("kernels: %s: %s holds %d, outside the rows there are", op, operand, value))
}

// ringBytes is the least length of a ring.
const ringBytes = 1 << 20

// mostHeldBytes limits the bytes uploaded through rings until the next Sync. Copying them to a
// ring takes the CPU some milliseconds, during which the GPU computes. Uploads beyond the limit
// wait for the GPU.
const mostHeldBytes = 32 << 20

// ring is memory for lists that are uploaded: the CPU writes them to host, and the GPU copies
// them to mirror if an operation reads them there.
type ring struct{ host, mirror Buffer }

func (r *ring) freeRing(d *cudaDevice) {
	d.Free(r.host)
	d.Free(r.mirror)
}

// stageList copies a list to the GPU, where it is valid until the next Sync, and returns its
// address. A list that does not fit goes to a new, longer ring, so that lists staged before
// remain valid.
func (s *cudaStream) stageList(list []byte) uintptr {
	from, at := s.copyToRing(list)
	if from.bytes == 0 {
		return 0
	}
	r := &s.rings[len(s.rings)-1]
	if r.mirror.bytes == 0 {
		var err error
		if r.mirror, err = s.d.Alloc(r.host.bytes, Working); err != nil {
			s.setError(err)
			return 0
		}
	}
	to := r.mirror.Slice(at, len(list))
	s.copyBytes(to.ptr, from.ptr, len(list), false)
	return uintptr(to.ptr)
}

// copyToRing copies a list to the last ring and returns the copy and its offset in the ring.
// The copy is empty if that fails.
func (s *cudaStream) copyToRing(list []byte) (in Buffer, at int) {
	if s.err != nil || len(list) == 0 {
		return in, 0
	}
	if n := len(s.rings); n == 0 || s.used+len(list) > s.rings[n-1].host.bytes {
		bytes := max(ringBytes, 2*len(list))
		if n > 0 {
			bytes = max(bytes, min(2*s.rings[n-1].host.bytes, 2*mostHeldBytes))
		}
		host, err := s.d.Alloc(bytes, Staging)
		if err != nil {
			s.setError(err)
			return in, 0
		}
		s.rings, s.used = append(s.rings, ring{host: host}), 0
	}
	in, at = s.rings[len(s.rings)-1].host.Slice(s.used, len(list)), s.used
	s.used += (len(list) + 255) &^ 255
	copy(in.Host(), list)
	return in, at
}

// heldBytes returns the bytes used in all rings.
func (s *cudaStream) heldBytes() int {
	bytes := s.used
	for i := range len(s.rings) - 1 {
		bytes += s.rings[i].host.bytes
	}
	return bytes
}

// copyBytes copies bytes. With wait it returns when they are copied: to and from may then be Go
// memory.
func (s *cudaStream) copyBytes(to, from unsafe.Pointer, bytes int, wait bool) {
	s.busy = !wait
	s.setError(s.s.Copy(to, from, bytes, wait))
}

// resetRings empties the rings after a Sync and frees all but the longest.
func (s *cudaStream) resetRings() {
	s.used = 0
	for n := len(s.rings); n > 1; n = len(s.rings) {
		s.rings[0].freeRing(s.d)
		s.rings = append(s.rings[:0], s.rings[1:]...)
	}
}

// growBuffer makes one of the stream's own buffers longer. Its contents are lost.
func (s *cudaStream) growBuffer(b *Buffer, bytes int) {
	if b.bytes >= bytes || s.err != nil {
		return
	}
	if s.setError(s.s.Sync()); s.err == nil { // no operation uses it any more
		s.setError(Grow(s.d, b, bytes, Working))
	}
}

// launchKernel launches a kernel with a number of blocks, which may be 0.
func (s *cudaStream) launchKernel(k cudaKernel, blocks, x, y, shared int, params unsafe.Pointer) {
	if s.err != nil || blocks == 0 {
		return
	}
	s.busy = true
	if err := s.s.Launch(s.d.code.functions[k], blocks, x, y, shared, params); err != nil {
		s.setError(fmt.Errorf("%s: %w", cudaNames[k], err))
	}
}

// blocksOf returns the number of blocks for n items at each items to a block, limited to
// mostBlocks: enough to fill the GPU a few times.
func (s *cudaStream) blocksOf(n, each int) int {
	return min((n+each-1)/each, s.mostBlocks())
}

func (s *cudaStream) mostBlocks() int { return 16 * s.d.Processors }

// addressOf returns the address of a buffer on the GPU.
func (s *cudaStream) addressOf(op, name string, b Buffer) uintptr {
	if b.bytes == 0 {
		return 0
	}
	if !b.device {
		panic(fmt.Sprintf("kernels: %s: %s is memory that the GPU cannot address", op, name))
	}
	return uintptr(b.ptr)
}

// indexAddress returns the address on the GPU of a list of n int32. It stages the list if the
// GPU cannot address it.
func (s *cudaStream) indexAddress(op, name string, b Buffer, n int) uintptr {
	if b.Floats() != n {
		panic(fmt.Sprintf("kernels: %s: %s holds %d indexes, want %d", op, name, b.Floats(), n))
	}
	if b.device || n == 0 {
		return uintptr(b.ptr)
	}
	return s.stageList(b.Host())
}

// matrixOf returns m for a kernel. It panics unless m is (rows, cols).
func (s *cudaStream) matrixOf(op, name string, m Matrix, rows, cols int) cudaMat {
	if !checkMatrix(op, name, m, rows, cols) {
		return cudaMat{}
	}
	return cudaMat{s.addressOf(op, name, m.Buf), int64(m.Stride)}
}

// threadsOf shapes a block of 256 threads for rows of n items: x threads for each of y rows.
func threadsOf(n int) (x, y int) {
	x = 1
	for x < n && x < 32 {
		x *= 2
	}
	return x, 256 / x
}

// by4 reports whether rows of d floats of all these matrices can be moved four floats at a
// time.
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
	if len(src) > mostHeldBytes {
		s.copyBytes(dst.ptr, unsafe.Pointer(&src[0]), len(src), true)
		return
	}
	if s.heldBytes()+len(src) > mostHeldBytes && s.Sync() != nil {
		return
	}
	if from, _ := s.copyToRing(src); from.bytes > 0 {
		s.copyBytes(dst.ptr, from.ptr, len(src), false)
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
		s.copyBytes(unsafe.Pointer(&dst[0]), src.ptr, len(dst), true)
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
		s.copyBytes(dst.ptr, src.ptr, dst.bytes, !dst.device || !src.device)
	}
}

func (s *cudaStream) Zero(dst Buffer) {
	if dst.bytes == 0 || s.err != nil {
		return
	}
	if dst.device {
		s.busy = true
		s.setError(s.s.Clear(dst.ptr, dst.bytes))
	} else if s.Sync() == nil {
		clear(dst.Host())
	}
}

// CUDA returns the context and the stream of a CUDA backend's Stream, for callers that give the
// GPU other work. ok is false for other streams.
func CUDA(s Stream) (*cuda.Context, *cuda.Stream, bool) {
	if c, ok := s.(*cudaStream); ok && c.err == nil {
		return c.d.Context, c.s, true
	}
	return nil, nil, false
}

// GPU returns the UUID of a CUDA backend's GPU. ok is false for other devices.
func GPU(d Device) (id [16]byte, ok bool) {
	c, ok := d.(*cudaDevice)
	if ok {
		id = c.UUID
	}
	return id, ok
}
