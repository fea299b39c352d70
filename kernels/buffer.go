package kernels

import (
	"fmt"
	"unsafe"
)

// Buffer is a span of a device's memory. The zero Buffer is empty. A Buffer is
// a view: copying it copies no data, and it is valid until its Device frees the
// allocation.
type Buffer struct {
	ptr    unsafe.Pointer
	bytes  int
	host   bool // the CPU can address it
	device bool // the GPU of a CUDA backend can
}

// Bytes returns the length of b in bytes.
func (b Buffer) Bytes() int { return b.bytes }

// Floats returns the length of b in float32 (or int32).
func (b Buffer) Floats() int { return b.bytes / 4 }

// Slice returns the n bytes of b that start at byte off.
func (b Buffer) Slice(off, n int) Buffer {
	if off < 0 || n < 0 || off+n > b.bytes {
		panic(fmt.Sprintf("kernels: slice [%d, %d) of a buffer of %d bytes", off, off+n, b.bytes))
	}
	if n == 0 {
		return Buffer{host: b.host, device: b.device}
	}
	return Buffer{unsafe.Add(b.ptr, off), n, b.host, b.device}
}

// SliceFloats returns the n float32 (or int32) of b that start at number off.
func (b Buffer) SliceFloats(off, n int) Buffer { return b.Slice(4*off, 4*n) }

// Address returns the address of b, as the GPU uses it if OnDevice reports true.
func (b Buffer) Address() unsafe.Pointer { return b.ptr }

// OnHost reports whether b, which may be empty, is memory that the CPU addresses.
func (b Buffer) OnHost() bool { return b.host }

// OnDevice reports whether b is memory that a CUDA backend's GPU addresses.
func (b Buffer) OnDevice() bool { return b.device }

// Host returns b's bytes where the CPU can address them, nil for the memory of
// another device. It is for transports and stores, not for model code.
func (b Buffer) Host() []byte {
	if !b.host || b.bytes == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(b.ptr), b.bytes)
}

// HostView is Host as a slice of T, whose size must divide b's length.
func HostView[T int32 | uint32 | float32 | uint64 | float64](b Buffer) []T {
	if !b.host || b.bytes == 0 {
		return nil
	}
	var t T
	return unsafe.Slice((*T)(b.ptr), b.bytes/int(unsafe.Sizeof(t)))
}

// BytesOf returns the memory of s as bytes, without a copy.
func BytesOf[T int32 | uint32 | float32 | uint64 | float64](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// HostBuffer views Go memory as a Buffer of the CPU. The caller keeps s alive
// for as long as the Buffer is used.
func HostBuffer[T uint8 | int32 | uint32 | float32 | uint64 | float64](s []T) Buffer {
	if len(s) == 0 {
		return Buffer{host: true}
	}
	return Buffer{ptr: unsafe.Pointer(&s[0]), bytes: len(s) * int(unsafe.Sizeof(s[0])), host: true}
}

// Matrix is a (Rows, Cols) float32 view of a Buffer, row-major: element (i, j)
// is float i*Stride + j of Buf.
type Matrix struct {
	Buf                Buffer
	Rows, Cols, Stride int
}

// Mat views the first rows*cols floats of b as a dense matrix.
func Mat(b Buffer, rows, cols int) Matrix {
	return Matrix{b.SliceFloats(0, rows*cols), rows, cols, cols}
}

// SpreadStride is the stride of Spread for rows of cols floats.
func SpreadStride(cols int) int {
	const way, line = 4096 / 4, 64 / 4 // floats
	if cols > 0 && cols%way == 0 {
		return cols + line
	}
	return cols
}

// Spread views the first floats of b as a (rows, cols) matrix. Rows of a multiple of 4 KiB are a cache line further apart than
// they are long, unless the CPU cannot address b: neighbouring rows would lie in the same sets of a cache, and evict one another.
func Spread(b Buffer, rows, cols int) Matrix {
	stride := cols
	if b.host && rows > 0 {
		stride = SpreadStride(cols)
	}
	return Matrix{b.SliceFloats(0, max(0, (rows-1)*stride+cols)), rows, cols, stride}
}

// Columns returns the n columns of m that start at column off.
func (m Matrix) Columns(off, n int) Matrix {
	if off < 0 || n < 0 || off+n > m.Cols {
		panic(fmt.Sprintf("kernels: columns [%d, %d) of %d", off, off+n, m.Cols))
	}
	if m.Rows == 0 || n == 0 {
		return Matrix{Rows: m.Rows, Cols: n, Stride: m.Stride}
	}
	return Matrix{m.Buf.SliceFloats(off, (m.Rows-1)*m.Stride+n), m.Rows, n, m.Stride}
}

// RowRange returns the n rows of m that start at row off.
func (m Matrix) RowRange(off, n int) Matrix {
	if off < 0 || n < 0 || off+n > m.Rows {
		panic(fmt.Sprintf("kernels: rows [%d, %d) of %d", off, off+n, m.Rows))
	}
	if n == 0 || m.Cols == 0 {
		return Matrix{Rows: n, Cols: m.Cols, Stride: m.Stride}
	}
	return Matrix{m.Buf.SliceFloats(off*m.Stride, (n-1)*m.Stride+m.Cols), n, m.Cols, m.Stride}
}
