package kernels

import "golang.org/x/sys/unix"

// adviseHuge requests huge pages. Without them everything works, only slower.
func adviseHuge(memory []byte) { _ = unix.Madvise(memory, unix.MADV_HUGEPAGE) }

// advisePopulate requests all pages at once. Linux before 5.14 does not support it and
// provides them one by one.
func advisePopulate(memory []byte) { _ = unix.Madvise(memory, unix.MADV_POPULATE_WRITE) }
