//go:build !linux

package env

// LongSlices does nothing here.
func LongSlices(bool) {}

// Binding is always nil: this system does not bind threads to cores.
type Binding struct{}

// Bind binds nothing here.
func Bind(int) (*Binding, error) { return nil, nil }

// Without calls f.
func (*Binding) Without(f func()) { f() }

// Undo does nothing.
func (*Binding) Undo() {}
