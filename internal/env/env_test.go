package env_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/internal/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hangLimit = 20 * time.Second

// within runs f and fails the test if it does not return.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(hangLimit):
		t.Fatalf("%s hangs", what)
	}
}

func TestGoDoNowSleep(t *testing.T) {
	e := env.Real()
	ran := env.NewEvent(e, "ran")
	e.Go("test", func() { ran.Set(nil) })
	within(t, "Go", func() { _ = ran.Wait() })

	failed := errors.New("disk full")
	if err := e.Do("write", func() error { return failed }); err != failed {
		t.Errorf("Do returns %v", err)
	}
	before := e.Now()
	e.Sleep(5 * time.Millisecond)
	if slept := e.Now() - before; slept < 5*time.Millisecond {
		t.Errorf("slept %v", slept)
	}
}

// TestSleepers lets many goroutines sleep at once, twice: none may wake early, and the second
// round uses the alarms of the first.
func TestSleepers(t *testing.T) {
	e := env.Real()
	for range 3 {
		within(t, "Sleep", func() {
			var all []*env.Event
			for i := range 40 {
				d := time.Duration(i) * 50 * time.Microsecond
				woke := env.NewEvent(e, "woke")
				all = append(all, woke)
				e.Go("sleeper", func() {
					before := e.Now()
					e.Sleep(d)
					if slept := e.Now() - before; slept < d {
						t.Errorf("slept %v of %v", slept, d)
					}
					woke.Set(nil)
				})
			}
			for _, woke := range all {
				_ = woke.Wait()
			}
		})
	}
	e.Sleep(0)
	e.Sleep(-time.Second)
}

func TestMonitorWakesAll(t *testing.T) {
	e := env.Real()
	m := e.Monitor("test")
	const waiters = 5
	turn, waiting, left := 0, 0, 0
	for range waiters {
		e.Go("waiter", func() {
			m.Lock()
			defer m.Unlock()
			waiting++
			m.Wake()
			for turn == 0 {
				m.Wait()
			}
			left++
			m.Wake()
		})
	}
	within(t, "Wait", func() {
		m.Lock()
		defer m.Unlock()
		for waiting < waiters {
			m.Wait()
		}
		turn = 1
		m.Wake()
		for left < waiters {
			m.Wait()
		}
	})
}

func TestWaitUntil(t *testing.T) {
	e := env.Real()
	m := e.Monitor("test")
	within(t, "WaitUntil", func() {
		m.Lock()
		defer m.Unlock()
		m.WaitUntil(e.Now() - time.Second) // in the past: returns at once
		m.WaitUntil(e.Now())
		due := e.Now() + 10*time.Millisecond
		for e.Now() < due {
			m.WaitUntil(due)
		}
	})

	// Wake is called before the time: the waiter returns early.
	started, woken := e.Now(), false
	e.Go("waker", func() {
		m.Lock()
		woken = true
		m.Wake()
		m.Unlock()
	})
	within(t, "WaitUntil of a far time", func() {
		m.Lock()
		defer m.Unlock()
		for !woken {
			m.WaitUntil(started + time.Hour)
		}
	})
}

func TestQueueKeepsOrderAndLimit(t *testing.T) {
	const limit, items = 3, 1000
	e := env.Real()
	q := env.NewQueue[int](e, "test", limit)
	e.Go("producer", func() {
		for i := range items {
			if !q.Put(i) {
				t.Errorf("item %d is refused", i)
			}
		}
		q.Close()
	})
	within(t, "Get", func() {
		for i := range items {
			if n := q.Len(); n > limit {
				t.Errorf("%d items wait, limit %d", n, limit)
			}
			x, ok := q.Get()
			if !ok || x != i {
				t.Errorf("got %d, %t, want %d", x, ok, i)
				return
			}
		}
		if x, ok := q.Get(); ok {
			t.Errorf("got %d after Close", x)
		}
	})
}

func TestQueueCloseEndsWaiters(t *testing.T) {
	e := env.Real()
	full, empty := env.NewQueue[string](e, "full", 1), env.NewQueue[string](e, "empty", 1)
	full.Put("kept")
	put, got := env.NewEvent(e, "put"), env.NewEvent(e, "got")
	e.Go("putter", func() {
		if full.Put("dropped") {
			t.Error("Put into a closed queue reports true")
		}
		put.Set(nil)
	})
	e.Go("getter", func() {
		if x, ok := empty.Get(); ok {
			t.Errorf("got %q from an empty queue", x)
		}
		got.Set(nil)
	})
	time.Sleep(5 * time.Millisecond)
	if put.Done() || got.Done() {
		t.Error("Put into a full queue or Get from an empty one returned")
	}
	full.Close()
	empty.Close()
	within(t, "Close", func() { _, _ = put.Wait(), got.Wait() })
	if x, ok := full.Get(); !ok || x != "kept" {
		t.Errorf("got %q, %t from the closed queue, want what was left", x, ok)
	}
	if _, ok := full.Get(); ok || full.Put("late") {
		t.Error("a closed and drained queue continues")
	}
}

func TestQueueNeedsRoom(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a queue without room does not panic")
		}
	}()
	env.NewQueue[int](env.Real(), "none", 0)
}

func TestQueueAllocatesNothing(t *testing.T) {
	q := env.NewQueue[[]byte](env.Real(), "test", 4)
	p := make([]byte, 8)
	if n := testing.AllocsPerRun(100, func() { q.Put(p); q.Get() }); n != 0 {
		t.Errorf("a Put and a Get allocate %v times", n)
	}
}

func TestEventKeepsTheFirstError(t *testing.T) {
	e := env.Real()
	v := env.NewEvent(e, "test")
	if v.Done() {
		t.Error("a new event has happened")
	}
	first := errors.New("first")
	e.Go("setter", func() {
		v.Set(first)
		v.Set(errors.New("second"))
	})
	within(t, "Event", func() {
		for range 2 {
			if err := v.Wait(); err != first {
				t.Errorf("got %v", err)
			}
		}
	})
	if !v.Done() {
		t.Error("the event has not happened")
	}
}
