package sim

import (
	"time"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/env/virtual"
)

// virtualTime converts a deadline of a socket to virtual time.
func virtualTime(t time.Time) time.Duration {
	if t.IsZero() {
		return never
	}
	return t.Sub(virtual.Epoch)
}

type address string

func (a address) Network() string { return "sim" }
func (a address) String() string  { return string(a) }

// wake wakes the tasks that wait for m.
func wake(m env.Monitor) {
	m.Lock()
	m.Wake()
	m.Unlock()
}

// waitUntil waits for a Wake, or for a time that may be never.
func waitUntil(m env.Monitor, until time.Duration) {
	if until == never {
		m.Wait()
	} else {
		m.WaitUntil(until)
	}
}
