package virtual_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/internal/env"
	"github.com/ecrec/ecrec/internal/env/virtual"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newScheduler returns a scheduler that delays tasks, as a simulation of faults does.
func newScheduler(seed uint64) *virtual.Scheduler {
	return virtual.New(virtual.Options{Draw: rand.New(rand.NewPCG(seed, 0)), Yields: 2, Lazy: 30, SlowestWork: time.Millisecond})
}

// crowd runs tasks that meet in queues and sleep. It returns the order in which they ran.
func crowd(seed uint64) (order []int, trace uint64, err error) {
	s := newScheduler(seed)
	e := s.NewProcess("a")
	err = s.Run(e, func() {
		q := env.NewQueue[int](e, "queue", 2)
		for i := range 20 {
			e.Go(fmt.Sprint("putter ", i), func() {
				if i%3 == 0 {
					e.Sleep(time.Duration(i) * time.Second)
				}
				q.Put(i)
			})
		}
		for range 20 {
			x, _ := q.Get()
			order = append(order, x)
		}
	})
	return order, s.Trace(), err
}

// A seed has one schedule, and seeds have different ones.
func TestScheduleDependsOnSeed(t *testing.T) {
	schedules := map[uint64]bool{}
	for seed := range uint64(20) {
		want, trace, err := crowd(seed)
		if err != nil {
			t.Fatal(err)
		}
		schedules[trace] = true
		for range 3 {
			if got, again, _ := crowd(seed); !slices.Equal(got, want) || again != trace {
				t.Fatalf("seed %d: %v, then %v", seed, want, got)
			}
		}
	}
	if len(schedules) < 20 {
		t.Errorf("20 seeds give %d schedules", len(schedules))
	}
}

// Time advances when no task can run, to the earliest due time.
func TestVirtualTime(t *testing.T) {
	s := newScheduler(1)
	e := s.NewProcess("a")
	var woke []time.Duration
	began := time.Now()
	err := s.Run(e, func() {
		for _, d := range []time.Duration{3, 1, 2} {
			e.Go("sleeper", func() {
				e.Sleep(d * time.Minute)
				woke = append(woke, e.Now())
			})
		}
		m := e.Monitor("test")
		m.Lock()
		m.WaitUntil(90 * time.Second)
		woke = append(woke, e.Now())
		m.WaitUntil(time.Second) // in the past
		m.Unlock()
	})
	want := []time.Duration{60 * time.Second, 90 * time.Second, 120 * time.Second, 180 * time.Second}
	if err != nil || !slices.Equal(woke, want) {
		t.Errorf("woke at %v, want %v; %v", woke, want, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("3 minutes of virtual time took %v", took)
	}
}

// A Wake ends a WaitUntil before its time.
func TestWakeBeforeTime(t *testing.T) {
	for seed := range uint64(10) {
		s := newScheduler(seed)
		e := s.NewProcess("a")
		if err := s.Run(e, func() {
			m, woken := e.Monitor("test"), false
			e.Go("waker", func() {
				e.Sleep(time.Second)
				m.Lock()
				woken = true
				m.Wake()
				m.Unlock()
			})
			m.Lock()
			for !woken {
				m.WaitUntil(time.Hour)
			}
			m.Unlock()
			if e.Now() != time.Second {
				t.Errorf("woken at %v", e.Now())
			}
		}); err != nil {
			t.Error(err)
		}
	}
}

// Two tasks that wait for each other are reported by name and unwound, first the one that
// the other started.
func TestDeadlockIsFound(t *testing.T) {
	s := newScheduler(1)
	e := s.NewProcess("process 7")
	var unwound []string
	err := s.Run(e, func() {
		defer func() { unwound = append(unwound, "main") }()
		a, b := env.NewEvent(e, "event a"), env.NewEvent(e, "event b")
		e.Go("other", func() {
			defer func() { unwound = append(unwound, "other"); b.Set(nil) }()
			_ = a.Wait()
			b.Set(nil)
		})
		_ = b.Wait()
		a.Set(nil)
	})
	var d *virtual.Deadlock
	if !errors.As(err, &d) || !strings.Contains(err.Error(), "process 7, other waits for event a") ||
		!strings.Contains(err.Error(), "process 7, main waits for event b") {
		t.Errorf("%v", err)
	}
	if want := []string{"other", "main"}; !slices.Equal(unwound, want) {
		t.Errorf("%v have unwound, want %v", unwound, want)
	}
}

// A panic ends the run with its stack.
func TestPanicIsReported(t *testing.T) {
	s := newScheduler(1)
	e := s.NewProcess("a")
	err := s.Run(e, func() {
		e.Go("bad", func() { panic("broken invariant") })
		_ = env.NewEvent(e, "never").Wait()
	})
	var p *virtual.Panicked
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "a, bad panicked: broken invariant") ||
		!strings.Contains(p.Stack, "TestPanicIsReported") {
		t.Errorf("%v", err)
	}
}

// A frozen process does nothing until it thaws. Alarms run at their decision.
func TestFreezeAndAlarms(t *testing.T) {
	s := newScheduler(3)
	a, b := s.NewProcess("a"), s.NewProcess("b")
	ran := time.Duration(-1)
	at := int64(0)
	s.AddAlarm(5, func() { at = s.Decisions() })
	if err := s.Run(b, func() {
		a.Freeze()
		a.Go("late", func() { ran = a.Now() })
		for range 10 {
			b.Sleep(time.Second)
		}
		a.Thaw()
	}); err != nil {
		t.Fatal(err)
	}
	if ran != 10*time.Second || at < 5 || at > 10 {
		t.Errorf("ran at %v, alarm at decision %d", ran, at)
	}
}
