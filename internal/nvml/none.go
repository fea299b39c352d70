//go:build !cgo || !linux

package nvml

const without = "this binary was built without cgo and cannot ask NVML"

// Open says that it cannot.
func Open() (close func(), err error) { return nil, &None{without} }

// Watch watches nothing.
type Watch struct{}

// Start says that it cannot.
func Start([16]byte) (*Watch, error) { return nil, &None{without} }

// Latest has nothing.
func (*Watch) Latest() (s Sample, ok bool) { return s, false }

// Close does nothing.
func (*Watch) Close() {}
