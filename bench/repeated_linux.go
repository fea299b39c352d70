package bench

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapRepeated returns memory of at least a number of bytes that consists of the same period bytes again and again: a write changes
// all repetitions. It takes physical memory for one of them. The period is a multiple of the page size.
func mapRepeated(bytes, period int) ([]byte, error) {
	fd, err := unix.MemfdCreate("ecrec-bench", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("bench: memory: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(period)); err != nil {
		return nil, fmt.Errorf("bench: memory: %w", err)
	}
	size := (bytes + period - 1) / period * period
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("bench: addresses of %d bytes: %w", size, err)
	}
	memory := unsafe.Slice((*byte)(base), size)
	for at := 0; at < size; at += period {
		if _, err := unix.MmapPtr(fd, 0, unsafe.Add(base, at), uintptr(period), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
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
