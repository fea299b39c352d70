package env

import (
	"sync"
	"time"
)

// Env is a rank's access to scheduling, time and slow devices.
type Env interface {
	// Go starts f as a goroutine of this rank. The name appears in dumps.
	Go(name string, f func())
	// Monitor makes a mutex with one condition. The name appears in dumps.
	Monitor(name string) Monitor
	// Now returns the time since the Env was made. No number that training
	// produces may depend on it.
	Now() time.Duration
	// Deadline returns the time d from now, for deadlines of sockets.
	Deadline(d time.Duration) time.Time
	// Sleep pauses the calling goroutine without occupying a core. Short pauses
	// are exact to about 10 us, if the system supports that.
	Sleep(d time.Duration)
	// Do runs f, which may block on a disk or another slow device. Its first
	// argument names the work for dumps and fault injection.
	Do(what string, f func() error) error
}

// Monitor is a mutex with one condition.
type Monitor interface {
	Lock()
	Unlock()
	// Wait releases the monitor, sleeps until Wake, and locks it again.
	// Wake-ups may be spurious: call it in a loop over the condition.
	Wait()
	// WaitUntil is like Wait, but also returns at time t of Env.Now.
	WaitUntil(t time.Duration)
	// Wake wakes every goroutine in Wait. The caller holds the monitor.
	Wake()
}

// Real returns the Env of production: goroutines, sync and the monotonic clock.
func Real() Env { return &realEnv{start: time.Now()} }

type realEnv struct {
	start  time.Time
	alarms alarms
}

func (e *realEnv) Go(_ string, f func()) { go f() }
func (e *realEnv) Now() time.Duration    { return time.Since(e.start) }
func (e *realEnv) Deadline(d time.Duration) time.Time {
	return time.Now().Add(d)
}
func (e *realEnv) Sleep(d time.Duration)             { e.alarms.sleep(d) }
func (e *realEnv) Do(_ string, f func() error) error { return f() }
func (e *realEnv) Monitor(string) Monitor {
	m := &realMonitor{env: e}
	m.cond.L = &m.mu
	return m
}

type realMonitor struct {
	mu   sync.Mutex
	cond sync.Cond
	env  *realEnv
}

func (m *realMonitor) Lock()   { m.mu.Lock() }
func (m *realMonitor) Unlock() { m.mu.Unlock() }
func (m *realMonitor) Wait()   { m.cond.Wait() }
func (m *realMonitor) Wake()   { m.cond.Broadcast() }

func (m *realMonitor) WaitUntil(t time.Duration) {
	d := t - m.env.Now()
	if d <= 0 {
		return
	}
	timer := time.AfterFunc(d, func() {
		m.mu.Lock()
		m.cond.Broadcast()
		m.mu.Unlock()
	})
	m.cond.Wait()
	timer.Stop()
}
