//go:build !linux

package report

import "os"

// allocate reserves size bytes of the disk for a file, by writing them.
func allocate(f *os.File, size int64) error {
	_, err := f.WriteAt(make([]byte, size), 0)
	return err
}
