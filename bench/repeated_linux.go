package bench

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// repeated is memory of which any number of bytes can be mapped: they are the same period bytes again and again, in all mappings. A
// write changes all repetitions. It takes physical memory for one of them, although the system counts each as resident.
type repeated struct{ fd, period int }

// newRepeated takes memory of a period, which is a multiple of the page size.
func newRepeated(period int) (*repeated, error) {
	fd, err := unix.MemfdCreate("ecrec-bench", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("bench: memory: %w", err)
	}
	if err := unix.Ftruncate(fd, int64(period)); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bench: memory: %w", err)
	}
	return &repeated{fd, period}, nil
}

// freeMemory frees the memory once all mappings are gone.
func (r *repeated) freeMemory() { unix.Close(r.fd) }

// mapBytes returns at least a number of bytes, for unmapRepeated.
func (r *repeated) mapBytes(bytes int) ([]byte, error) {
	size := (bytes + r.period - 1) / r.period * r.period
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("bench: addresses of %d bytes: %w", size, err)
	}
	memory := unsafe.Slice((*byte)(base), size)
	for at := 0; at < size; at += r.period {
		if _, err := unix.MmapPtr(r.fd, 0, unsafe.Add(base, at), uintptr(r.period), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
			unmapRepeated(memory)
			return nil, fmt.Errorf("bench: memory: %w", err)
		}
	}
	return memory, nil
}

func unmapRepeated(memory []byte) {
	if err := unix.MunmapPtr(unsafe.Pointer(&memory[0]), uintptr(len(memory))); err != nil {
		panic(fmt.Sprintf("bench: unmapping %d bytes: %v", len(memory), err))
	}
}
