package transport

import (
	"runtime"
	"testing"

	"github.com/ecrec/ecrec/internal/env"
)

// TestWorldOfFewLocalRanks: a process has pipes among its own ranks only, however large the world is.
func TestWorldOfFewLocalRanks(t *testing.T) {
	const most = 1 << 20
	here := []int{7, 11, 4095}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := newMemWorld(env.Real(), 4096, 1, here)
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > most {
		t.Errorf("%d of 4096 ranks take %d bytes, want at most %d", len(here), bytes, most)
	}
	for _, from := range here {
		for _, to := range here {
			if l := w.pipeOf(from, to); from != to && (l.from != from || l.to != to) {
				t.Errorf("the pipe from rank %d to rank %d is that from rank %d to rank %d", from, to, l.from, l.to)
			}
		}
	}
}
