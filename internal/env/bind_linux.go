package env

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Binding binds a process's threads to a core. A nil Binding does nothing.
type Binding struct{ before unix.CPUSet }

// Bind keeps all present and future threads of this process on one core: the n-th of the
// cores that it may run on.
func Bind(n int) (*Binding, error) {
	b := &Binding{}
	if err := unix.SchedGetaffinity(0, &b.before); err != nil {
		return nil, fmt.Errorf("which cores this process may run on: %w", err)
	}
	var core unix.CPUSet
	for cpu, left := 0, n; left >= 0 && cpu < 64*len(b.before); cpu++ {
		if b.before.IsSet(cpu) {
			if left == 0 {
				core.Set(cpu)
			}
			left--
		}
	}
	if core.Count() == 0 {
		return nil, fmt.Errorf("there is no core %d for this process: it may run on %d", n, b.before.Count())
	}
	eachThread(func(id int) { _ = unix.SchedSetaffinity(id, &core) }) // fails only for threads that have ended
	return b, nil
}

// Without calls f on a thread that is not bound. Processes that f starts are not bound
// either.
func (b *Binding) Without(f func()) {
	if b == nil {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var core unix.CPUSet
	if unix.SchedGetaffinity(0, &core) == nil && unix.SchedSetaffinity(0, &b.before) == nil {
		defer func() { _ = unix.SchedSetaffinity(0, &core) }()
	}
	f()
}

// Undo ends the binding.
func (b *Binding) Undo() {
	if b != nil {
		eachThread(func(id int) { _ = unix.SchedSetaffinity(id, &b.before) })
	}
}
