package env

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// exactBelow is how short a pause must be for the runtime's timers, which
	// are up to a millisecond late, to be too coarse.
	exactBelow = 5 * time.Millisecond
	// maxAlarms bounds the alarms that are kept for the next sleep.
	maxAlarms = 16
)

// alarms are timers of the kernel. One that fires wakes its sleeper as bytes of a
// connection would.
type alarms struct {
	mu   sync.Mutex
	idle []*alarm
}

type alarm struct {
	fd   int
	file *os.File // whose reads are the runtime's poller's
}

func (a *alarms) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	if d >= exactBelow || !a.exact(d) {
		time.Sleep(d)
	}
}

// exact sleeps, and reports false where there is no alarm to be had.
func (a *alarms) exact(d time.Duration) bool {
	x := a.take()
	if x == nil {
		return false
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(x.fd, 0, &spec, nil); err != nil {
		x.file.Close()
		return false
	}
	var fired [8]byte
	if _, err := x.file.Read(fired[:]); err != nil {
		x.file.Close()
		return false
	}
	a.put(x)
	return true
}

func (a *alarms) take() *alarm {
	a.mu.Lock()
	if n := len(a.idle); n > 0 {
		x := a.idle[n-1]
		a.idle = a.idle[:n-1]
		a.mu.Unlock()
		return x
	}
	a.mu.Unlock()
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil
	}
	return &alarm{fd, os.NewFile(uintptr(fd), "alarm")}
}

func (a *alarms) put(x *alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.idle) == maxAlarms {
		x.file.Close()
		return
	}
	a.idle = append(a.idle, x)
}
