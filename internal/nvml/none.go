//go:build !cgo || !linux

package nvml

const without = "this binary was built without cgo and cannot use NVML"

// Open returns the error that this build cannot use NVML.
func Open() (close func(), err error) { return nil, &None{without} }

// Watch is never made in this build.
type Watch struct{}

// Start returns the error that this build cannot use NVML.
func Start([16]byte) (*Watch, error) { return nil, &None{without} }

// Latest returns no sample.
func (*Watch) Latest() (s Sample, ok bool) { return s, false }

// Close does nothing.
func (*Watch) Close() {}
