// Package directio moves large files past the page cache, one block after the
// other, with the disk and the processor busy at the same time.
//
// # How
//
// A file is read or written in blocks of 1 MiB through a few aligned buffers. A
// goroutine of the rank makes the system calls, inside Env.Do; its owner fills or
// uses one buffer while another is read or written. Files are opened with O_DIRECT. If
// a file system refuses that, the same code goes through the page cache.
// A Writer reserves its space first, so that a full disk is an error before the
// first byte is written.
//
// OpenFile, Do and Aligned are for packages that read and write parts of files in another order.
//
// # Invariants
//
//   - A Writer's Close returns only when all of the file is on the disk.
//   - Sums are XXH3 (64 bits) of all bytes of the file, in order.
//   - A Writer or Reader belongs to one goroutine, and takes Blocks*(1 MiB + slack)
//     of memory for any file size.
//
// # Never
//
// It does not interpret the contents of a file, and does not name temporary files.
package directio
