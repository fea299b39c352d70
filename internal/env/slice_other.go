//go:build !linux

package env

// LongSlices does nothing here.
func LongSlices(bool) {}
