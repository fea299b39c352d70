package bench

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestCoreRoundTrip(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("a round trip needs two cores")
	}
	for range 5 { // other tests may keep a core busy
		if took, ok := coreRoundTrip(); ok {
			if took < 5*time.Nanosecond || took > time.Millisecond {
				t.Errorf("a round trip of %v", took)
			}
			return
		}
	}
	t.Skip("the two threads did not run at the same time in five tries: other tests keep the cores busy")
}

// TestTripGivesUp: a core whose partner never answers does not wait forever.
func TestTripGivesUp(t *testing.T) {
	if _, ok := (&trip{deadline: time.Now().Add(time.Millisecond)}).pass(0, 1); ok {
		t.Error("a round trip without a partner")
	}
}

// TestTripsAreWritten: a report has both times, or the word unknown.
func TestTripsAreWritten(t *testing.T) {
	ns := 61.0
	for _, c := range []struct {
		load Load
		want string
	}{
		{Load{}, ""},
		{Load{TripStart: &ns, TripEnd: &ns}, "back: 61 ns at the start, 61 ns at the end"},
		{Load{TripStart: &ns}, "back: 61 ns at the start, unknown at the end"},
	} {
		var out strings.Builder
		c.load.writeTrips(&out)
		if got := out.String(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if startLoad(&World{Size: 2}).TripStart != nil {
		t.Error("ranks measured between cores, at the same time")
	}
}
