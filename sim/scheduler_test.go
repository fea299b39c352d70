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

// crowd has tasks that meet in queues and sleep; it returns who came when.
func crowd(seed uint64) (order []int, trace uint64, err error) {
	s := newScheduler(seed)
	e := s.node("a")
	err = s.run(e, func() {
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

// A seed has one schedule; seeds have different ones.
func TestScheduleIsTheSeeds(t *testing.T) {
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

// Time passes where nobody can run, to who is due first.
func TestVirtualTime(t *testing.T) {
	s := newScheduler(1)
	e := s.node("a")
	var woke []time.Duration
	began := time.Now()
	err := s.run(e, func() {
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
		m.WaitUntil(time.Second) // past
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

// A Wake comes before the time that was waited for.
func TestWakeBeforeTime(t *testing.T) {
	for seed := range uint64(10) {
		s := newScheduler(seed)
		e := s.node("a")
		if err := s.run(e, func() {
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

// Two that wait for each other are told of, by name, and unwound, the one that was begun
// by the other first.
func TestDeadlockIsFound(t *testing.T) {
	s := newScheduler(1)
	e := s.node("process 7")
	var unwound []string
	err := s.run(e, func() {
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
	if !errors.As(err, &d) || !strings.Contains(err.Error(), "process 7, other waits for event a") || !strings.Contains(err.Error(), "process 7, main waits for event b") {
		t.Errorf("%v", err)
	}
	if want := []string{"other", "main"}; !slices.Equal(unwound, want) {
		t.Errorf("%v have unwound, want %v", unwound, want)
	}
}

// A panic ends the run with its stack.
func TestPanicIsTold(t *testing.T) {
	s := newScheduler(1)
	e := s.node("a")
	err := s.run(e, func() {
		e.Go("bad", func() { panic("broken invariant") })
		_ = env.NewEvent(e, "never").Wait()
	})
	var p *Panicked
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "a, bad panics: broken invariant") || !strings.Contains(p.Stack, "TestPanicIsTold") {
		t.Errorf("%v", err)
	}
}

// A frozen process does nothing until it thaws; alarms come at their decision.
func TestFreezeAndAlarms(t *testing.T) {
	s := newScheduler(3)
	a, b := s.node("a"), s.node("b")
	ran := time.Duration(-1)
	at := int64(0)
	s.at(5, func() { at = s.decisions })
	if err := s.run(b, func() {
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
