package kernels

import (
	"sync/atomic"
	"testing"
)

func TestThreadsRunEachPartOnce(t *testing.T) {
	for _, n := range []int{0, 1, 2, 5} {
		threads := NewThreads(n)
		if got := threads.Count(); got != max(1, n) {
			t.Errorf("%d threads, want %d", got, n)
		}
		busy := make([]atomic.Int32, threads.Count())
		for _, parts := range []int{0, 1, 2, 7, 1000} {
			ran := make([]atomic.Int32, parts)
			threads.Run(parts, func(worker, i int) {
				if busy[worker].Add(1) != 1 {
					t.Errorf("two parts run with worker %d at once", worker)
				}
				ran[i].Add(1)
				busy[worker].Add(-1)
			})
			for i := range ran {
				if n := ran[i].Load(); n != 1 {
					t.Errorf("part %d of %d ran %d times", i, parts, n)
				}
			}
		}
		part := func(int, int) {}
		if n := testing.AllocsPerRun(20, func() { threads.Run(3, part) }); n > 0 {
			t.Errorf("Run allocates %v times", n)
		}
		threads.Close()
	}
}
