package transport

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/env"
)

// counted is an Env whose clock advances by a microsecond each time it is read.
type counted struct {
	env.Env
	now time.Duration
}

func (e *counted) Now() time.Duration {
	e.now += time.Microsecond
	return e.now
}

// TestPollingLetsGoroutinesRun: a rank that polls lets the other ranks of its process run at each poll, also on one thread.
func TestPollingLetsGoroutinesRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	w, err := newNetWorld(&NetOptions{Env: env.Real(), Processes: []Process{{Ranks: []int{0, 1}}, {Ranks: []int{2}}}, Heartbeat: time.Second,
		Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	clock := &counted{Env: env.Real()}
	g := &w.polling
	g.env, g.shared = clock, true

	var turns, over atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for over.Load() == 0 {
			turns.Add(1)
			runtime.Gosched()
		}
	}()
	g.pollRings(&netRequest{}, 0)
	ran, polls := turns.Load(), int64(clock.now/time.Microsecond)
	over.Store(1)
	<-ended
	if polls < int64(pollShared/time.Microsecond) || ran < polls/2 {
		t.Errorf("another goroutine ran %d times during %d polls", ran, polls)
	}
}
