package heartbeat_test

import (
	"testing"
	"time"

	"github.com/ecrec/ecrec/internal/heartbeat"
)

func TestLimit(t *testing.T) {
	for _, c := range []struct {
		interval time.Duration
		recovers bool
		want     time.Duration
	}{
		{200 * time.Millisecond, true, time.Second},
		{200 * time.Millisecond, false, 30 * time.Second},
		{7 * time.Second, false, 35 * time.Second},
	} {
		if got := heartbeat.Limit(c.interval, c.recovers); got != c.want {
			t.Errorf("heartbeat every %v, recovers %v: lost after %v, want %v", c.interval, c.recovers, got, c.want)
		}
	}
}
