//go:build !linux

package bench

// mapRepeated returns memory that does not repeat: it takes all of its bytes.
func mapRepeated(bytes, _ int) ([]byte, error) { return make([]byte, bytes), nil }

func unmapRepeated([]byte) {}
