package kernels

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// countTask counts how often each part ran, and records whether a worker was in two
// parts at once.
type countTask struct {
	ran   []atomic.Int32
	busy  [8]atomic.Int32
	clash atomic.Bool
}

func (c *countTask) runPart(worker, i int) {
	if c.busy[worker].Add(1) != 1 {
		c.clash.Store(true)
	}
	c.ran[i].Add(1)
	c.busy[worker].Add(-1)
}

func TestPoolRunsEachPartOnce(t *testing.T) {
	for threads := 1; threads <= 4; threads++ {
		p := newPool(threads)
		c := &countTask{ran: make([]atomic.Int32, 100)}
		want := make([]int32, len(c.ran))
		for run := range 2000 {
			n := run % (len(c.ran) + 1)
			p.runTask(n, c)
			for i := range n {
				want[i]++
			}
			if run%100 == 0 {
				time.Sleep(100 * time.Microsecond) // lets workers park
			}
			for i := range want {
				if got := c.ran[i].Load(); got != want[i] {
					t.Fatalf("threads %d, run %d: part %d ran %d times, want %d", threads, run, i, got, want[i])
				}
			}
		}
		p.stopWorkers()
		if c.clash.Load() {
			t.Fatalf("threads %d: one worker ran two parts at once", threads)
		}
	}
}

// TestPoolShares: every part runs once, for any shares, also empty ones, and for parts that are in none.
func TestPoolShares(t *testing.T) {
	p := newPool(3)
	defer p.stopWorkers()
	for _, bounds := range [][]int{{0, 30, 60, 90}, {0, 0, 0, 0}, {0, 100, 100, 100}, {0, 1, 99, 99}, {0, 50, 50, 100}} {
		for range 500 {
			c := &countTask{ran: make([]atomic.Int32, 100)}
			p.runShares(len(c.ran), bounds, c)
			for i := range c.ran {
				if got := c.ran[i].Load(); got != 1 {
					t.Fatalf("shares %v: part %d ran %d times", bounds, i, got)
				}
			}
		}
	}
}

// TestShare: parts are claimed from both ends, each once.
func TestShare(t *testing.T) {
	var s share
	s.left.Store(3<<32 | 6)
	for _, c := range []struct {
		last bool
		part int
	}{{false, 3}, {true, 5}, {false, 4}} {
		if part, ok := s.claimPart(c.last); !ok || part != c.part {
			t.Errorf("claimed part %d, %v, want %d", part, ok, c.part)
		}
	}
	for _, last := range []bool{false, true} {
		if part, ok := s.claimPart(last); ok {
			t.Errorf("claimed part %d of an empty share", part)
		}
	}
}

func TestPoolLeavesNothingBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	threads := poolThreads.Load()
	for range 20 {
		p := newPool(4)
		p.runTask(3, &countTask{ran: make([]atomic.Int32, 3)})
		p.stopWorkers()
	}
	// Ended goroutines leave the count a moment after their last statement.
	for i := 0; runtime.NumGoroutine() > before && i < 1000; i++ {
		time.Sleep(time.Millisecond)
	}
	if got := runtime.NumGoroutine(); got > before {
		t.Fatalf("%d goroutines, %d before", got, before)
	}
	if got := poolThreads.Load(); got != threads {
		t.Fatalf("%d pool threads counted, %d before", got, threads)
	}
}

func TestPoolAllocatesNothing(t *testing.T) {
	p := newPool(2)
	defer p.stopWorkers()
	c := &countTask{ran: make([]atomic.Int32, 16)}
	if got := testing.AllocsPerRun(100, func() { p.runTask(16, c) }); got != 0 {
		t.Fatalf("run allocates %v times", got)
	}
}

func BenchmarkPoolRun(b *testing.B) {
	p := newPool(2)
	defer p.stopWorkers()
	c := &countTask{ran: make([]atomic.Int32, 2)}
	for b.Loop() {
		p.runTask(2, c)
	}
}
