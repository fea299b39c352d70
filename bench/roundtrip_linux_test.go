package bench

import (
	"runtime"
	"testing"
	"time"
)

func TestCoreRoundTrip(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one core")
	}
	for range 5 { // other tests may keep a core busy
		if took, ok := coreRoundTrip(); ok {
			if took < 5*time.Nanosecond || took > time.Millisecond {
				t.Errorf("a round trip of %v", took)
			}
			return
		}
	}
	t.Skip("the cores are busy")
}

// TestTripGivesUp: a core whose partner never answers does not wait forever.
func TestTripGivesUp(t *testing.T) {
	if _, ok := (&trip{deadline: time.Now().Add(time.Millisecond)}).pass(0, 1); ok {
		t.Error("a round trip without a partner")
	}
}
