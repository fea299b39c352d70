//go:build !linux

package bench

// repeated is memory that does not repeat: a mapping takes all of its bytes.
type repeated struct{}

func newRepeated(int) (*repeated, error)             { return &repeated{}, nil }
func (*repeated) freeMemory()                        {}
func (*repeated) mapBytes(bytes int) ([]byte, error) { return make([]byte, bytes), nil }
func unmapRepeated([]byte)                           {}
