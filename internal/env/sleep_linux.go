package env

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// exactBelow is the length of pauses below which the runtime's timers, which
	// are up to a millisecond late, are too coarse.
	exactBelow = 5 * time.Millisecond
	// maxAlarms bounds the idle alarms that are kept for later sleeps.
	maxAlarms = 16
)

// alarms are timers of the kernel. A timer that fires wakes its sleeper through the
// runtime's poller, like bytes of a connection.
type alarms struct {
	mu   sync.Mutex
	idle []*alarm
}

type alarm struct {
	fd   int
	file *os.File // reads of it wait in the runtime's poller
}

func (a *alarms) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	if d >= exactBelow || !a.sleepExactly(d) {
		time.Sleep(d)
	}
}

// sleepExactly sleeps for d. It reports false, without sleeping, if there is no alarm.
func (a *alarms) sleepExactly(d time.Duration) bool {
	x := a.takeAlarm()
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
	a.putAlarm(x)
	return true
}

func (a *alarms) takeAlarm() *alarm {
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

func (a *alarms) putAlarm(x *alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.idle) == maxAlarms {
		x.file.Close()
		return
	}
	a.idle = append(a.idle, x)
}
