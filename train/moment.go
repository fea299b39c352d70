package train

import (
	"sync/atomic"
	"time"
)

// moment is the first time that something happened since it was cleared. It is safe for
// concurrent use.
type moment struct{ ns atomic.Int64 }

func (m *moment) set(now time.Duration) { m.ns.CompareAndSwap(0, int64(now)) }

// isSet reports whether it happened.
func (m *moment) isSet() bool { return m.ns.Load() != 0 }

// at returns that time, now if it did not happen.
func (m *moment) at(now time.Duration) time.Duration {
	if ns := m.ns.Load(); ns != 0 {
		return time.Duration(ns)
	}
	return now
}

// clear forgets the time, once a new world is joined.
func (m *moment) clear() { m.ns.Store(0) }

// lossTimes are the times of the last loss in a process.
type lossTimes struct {
	noticed  moment        // when it was noticed here
	happened moment        // when it happened, if that is known
	formed   time.Duration // when the present world had formed
}
