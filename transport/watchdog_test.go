package transport

import (
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// newWatchdog has a heartbeat of 100 ms, and two ticks in each.
func newWatchdog() *watchdog {
	return &watchdog{heartbeat: 100 * ms, silence: 500 * ms, join: time.Minute}
}

func TestWatchdogLosesASilentPeer(t *testing.T) {
	d := newWatchdog()
	for now := 50 * ms; now <= 500*ms; now += 50 * ms {
		d.recordTick(now)
		if err := d.checkSilence(0, now); err != nil {
			t.Fatalf("lost after %v: %v", now, err)
		}
	}
	if err := d.checkSilence(0, 550*ms); err == nil || !strings.Contains(err.Error(), "raise elastic.heartbeat") {
		t.Errorf("after 550 ms: %v", err)
	}
}

// A peer that has sent nothing may still be joining, even if others have waited for long.
func TestWatchdogWaitsForAJoiningPeer(t *testing.T) {
	d := newWatchdog()
	if err := d.checkSilence(neverReceived, time.Minute); err != nil {
		t.Error(err)
	}
	if d.checkSilence(neverReceived, time.Minute+ms) == nil {
		t.Error("a joining peer has no limit")
	}
}

// If this process's own ticks are late, the limit for peers is longer, and later it is
// not.
func TestWatchdogLimitFollowsLateTicks(t *testing.T) {
	d := newWatchdog()
	now := time.Duration(0)
	for range 10 {
		now += 90 * ms // 40 ms late
		if d.recordTick(now) {
			t.Fatal("a tick that is 40 ms late counts as a standstill")
		}
	}
	if d.checkSilence(now-600*ms, now) != nil {
		t.Error("late ticks did not extend the limit")
	}
	if d.checkSilence(now-700*ms, now) == nil {
		t.Error("late ticks extended the limit without end")
	}
	for range 200 {
		now += 50 * ms
		d.recordTick(now)
	}
	if d.checkSilence(now-510*ms, now) == nil {
		t.Errorf("the limit is still %v, 10 s after the load", d.silenceLimit())
	}
	if !d.recordTick(now + 101*ms) {
		t.Error("a standstill is not noticed")
	}
	d.recordTick(now + time.Hour)
	if most := 500*ms + lateFactor*500*ms; d.silenceLimit() != most {
		t.Errorf("after a standstill of an hour the limit is %v, want %v", d.silenceLimit(), most)
	}
}
