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
	for _, bounds := range [][]int{{0, 30, 60, 90}, {0, 0, 0, 0}, {0, 100, 100, 100}, {0, 1, 99, 99}, {0, 50, 50, 100},
		{0, 1, 1, 2}, {0, 1, 1, 1}} {
		for run := range 500 {
			n := max(bounds[3], []int{100, bounds[3], 2}[run%3])
			c := &countTask{ran: make([]atomic.Int32, n)}
			p.runShares(n, bounds, c)
			if run%100 == 0 {
				time.Sleep(100 * time.Microsecond) // lets workers park
			}
			for i := range c.ran {
				if got := c.ran[i].Load(); got != 1 {
					t.Fatalf("shares %v of %d: part %d ran %d times", bounds, n, i, got)
				}
			}
		}
	}
}

// orderTask records the order in which parts begin.
type orderTask struct{ began chan int }

func (o orderTask) runPart(_, i int) { o.began <- i }

// TestPoolQueue: parts without shares begin in their order, as far as threads allow: none overtakes more than one of each other thread.
func TestPoolQueue(t *testing.T) {
	p := newPool(3)
	defer p.stopWorkers()
	for range 100 {
		o := orderTask{make(chan int, 100)}
		p.runQueue(100, o)
		for at := range 100 {
			if i := <-o.began; i > at+2 {
				t.Fatalf("part %d was begun as number %d", i, at)
			}
		}
	}
}

// TestShare: parts are claimed from both ends, each once.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		ends          uint64
		other, second bool
		want          []int
	}{
		{0, false, true, []int{3, 4, 5}},
		{0, true, false, []int{5, 4, 3}},
		{bothEnds, false, true, []int{5, 4, 3}},
		{bothEnds, false, false, []int{3, 4, 5}},
	} {
		var s share
		s.giveParts(3, 6, c.ends)
		for _, want := range c.want {
			if part, ok := s.claimPart(c.other, c.second); !ok || part != want {
				t.Errorf("%+v: claimed part %d, %v, want %d", c, part, ok, want)
			}
		}
		for _, other := range []bool{false, true} {
			if part, ok := s.claimPart(other, true); ok {
				t.Errorf("%+v: claimed part %d of an empty share", c, part)
			}
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
