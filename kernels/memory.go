package kernels

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ecrec/ecrec/internal/arena"
)

// hugePage is the size of a transparent huge page.
const hugePage = 2 << 20

// mapping is the memory of one Alloc, from the system or from the process's arena.
type mapping struct {
	base  unsafe.Pointer
	bytes uintptr
	arena *arena.Arena // nil: from the system
}

// mapMemory returns at least bytes of memory off the Go heap, and the mapping that
// contains it. Untouched pages take no physical memory. It is zeroed, except Rows.
//
// Working memory gets huge pages: random reads of it run up to 1.7 times as fast.
// Sparse memory does not, unless its user asks for them (HugePages) because it
// uses the memory from the beginning on. Else the first step of a run touches rows all over a table.
// For 65,000 rows of 6.5 GB that took 0.6 s with small pages and 20 s with huge
// ones, which also make memory resident that no step may ever use. A gather of those
// rows took 3.2 ms with small and 2.7 ms with huge pages.
func mapMemory(bytes int, use Use) (unsafe.Pointer, mapping, error) {
	if use == Shared || use == Sent {
		if ptr, m, err := shareMemory(bytes); err == nil {
			return ptr, m, nil
		}
		use = Working // everything works, only slower
	}
	if a := arena.Kept(); use == Rows && a != nil {
		if ptr, err := a.Alloc(bytes); err == nil {
			return ptr, mapping{base: ptr, arena: a}, nil
		}
	}
	huge := (use == Working || use == Staging) && bytes >= hugePage
	size, align := uintptr(bytes), uintptr(unix.Getpagesize())
	if huge {
		size, align = size+hugePage, hugePage // room to align in
	}
	size = (size + align - 1) / align * align
	base, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, mapping{}, fmt.Errorf("kernels: mapping %d bytes of memory: %w", bytes, err)
	}
	m := mapping{base: base, bytes: size}
	if !huge {
		return base, m, nil
	}
	start := unsafe.Add(base, -uintptr(base)&(hugePage-1))
	adviseHuge(unsafe.Slice((*byte)(start), bytes))
	return start, m, nil
}

// OpenShared reserves the addresses of Shared memory, which the first Alloc of it does otherwise.
func OpenShared() { _, _ = arena.Own() }

// shareMemory takes memory from the arena.
func shareMemory(bytes int) (unsafe.Pointer, mapping, error) {
	a, err := arena.Own()
	if err != nil {
		return nil, mapping{}, err
	}
	ptr, err := a.Alloc(bytes)
	return ptr, mapping{base: ptr, arena: a}, err
}

// Populate makes the system provide the memory of b at once instead of page by page.
// Call it for memory from Alloc that will be written completely. It changes no byte,
// and may do nothing.
func Populate(b Buffer) {
	memory := b.Host()
	if memory == nil {
		return
	}
	page := uintptr(unix.Getpagesize())
	start := uintptr(unsafe.Pointer(&memory[0])) &^ (page - 1)
	end := uintptr(unsafe.Pointer(&memory[0])) + uintptr(len(memory))
	whole := unsafe.Slice((*byte)(unsafe.Add(b.ptr, -int(uintptr(b.ptr)-start))), int(end-start))
	advisePopulate(whole)
}

// HugePages requests huge pages for the aligned part of memory. It changes no byte, and may do nothing.
func HugePages[T byte | uint32 | uint64](memory []T) {
	bytes := uintptr(len(memory)) * unsafe.Sizeof(*new(T))
	start := -uintptr(unsafe.Pointer(unsafe.SliceData(memory))) & (hugePage - 1)
	if bytes < start+hugePage {
		return
	}
	whole := (bytes - start) &^ (hugePage - 1)
	adviseHuge(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(memory)), start)), whole))
}

// Trim frees Rows memory that a process before this one used and this one does not.
func Trim() {
	if a := arena.Kept(); a != nil {
		a.Trim()
	}
}

// MapPresent maps the Rows memory that a process before this one used, in the background.
func MapPresent() {
	if a := arena.Kept(); a != nil {
		a.MapPresent()
	}
}

// unmap frees m.
func (m mapping) unmap() {
	if m.arena != nil {
		m.arena.Free(m.base)
		return
	}
	if err := unix.MunmapPtr(m.base, m.bytes); err != nil {
		panic(fmt.Sprintf("kernels: unmapping %d bytes at %p: %v", m.bytes, m.base, err))
	}
}
