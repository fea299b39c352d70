package measure

import (
	"sync"
	"sync/atomic"
	"testing"
)

// All ranks read the same decision of a turn, also if a stop is requested meanwhile.
func TestRanksEndInOneTurn(t *testing.T) {
	const ranks, all = 8, 200
	var asked atomic.Int32
	turns := NewTurns(all, func(int, int) bool { return asked.Add(1) > all/2 })
	var ends [ranks]int
	var wait sync.WaitGroup
	for rank := range ranks {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for ends[rank] < all && !turns.IsEnded(ends[rank]) {
				ends[rank]++
			}
		}()
	}
	wait.Wait()
	for _, end := range ends {
		if end != ends[0] || end == all {
			t.Fatalf("ranks end in turns %v", ends)
		}
	}
	if NewTurns(1, nil).IsEnded(0) {
		t.Error("a turn is not run without a stop")
	}
}
