package launcher

import (
	"testing"
	"time"
)

// never is a future that never completes.
type never struct{}

func (never) Error() error { select {} }

// A member leaves even if the consensus library waits for ever.
func TestCloseIsBounded(t *testing.T) {
	over := make(chan struct{})
	go func() {
		awaitAtMost(10*time.Millisecond, never{})
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(patience):
		t.Fatal("awaitAtMost waits for ever")
	}
}
