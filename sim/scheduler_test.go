package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ecrec/ecrec/internal/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// crowd runs tasks that meet in queues and sleep. It returns the order in which they ran.
func crowd(seed uint64) (order []int, trace uint64, err error) {
	s := newScheduler(seed)
	e := s.newProcess("a")
	err = s.runAll(e, func() {
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
	return order, s.trace, err
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
	e := s.newProcess("a")
	var woke []time.Duration
	began := time.Now()
	err := s.runAll(e, func() {
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
		e := s.newProcess("a")
		if err := s.runAll(e, func() {
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
	e := s.newProcess("process 7")
	var unwound []string
	err := s.runAll(e, func() {
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
	var d *Deadlock
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
	e := s.newProcess("a")
	err := s.runAll(e, func() {
		e.Go("bad", func() { panic("broken invariant") })
		_ = env.NewEvent(e, "never").Wait()
	})
	var p *Panicked
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "a, bad panicked: broken invariant") ||
		!strings.Contains(p.Stack, "TestPanicIsReported") {
		t.Errorf("%v", err)
	}
}

// A frozen process does nothing until it thaws. Alarms run at their decision.
func TestFreezeAndAlarms(t *testing.T) {
	s := newScheduler(3)
	a, b := s.newProcess("a"), s.newProcess("b")
	ran := time.Duration(-1)
	at := int64(0)
	s.addAlarm(5, func() { at = s.decisions })
	if err := s.runAll(b, func() {
		a.freeze()
		a.Go("late", func() { ran = a.Now() })
		for range 10 {
			b.Sleep(time.Second)
		}
		a.thaw()
	}); err != nil {
		t.Fatal(err)
	}
	if ran != 10*time.Second || at < 5 || at > 10 {
		t.Errorf("ran at %v, alarm at decision %d", ran, at)
	}
}
