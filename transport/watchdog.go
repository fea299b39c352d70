package transport

import (
	"fmt"
	"time"
)

// watchdog decides when the silence of a process means its loss. It reads no clock.
//
// A peer that has sent nothing yet may still be joining, which has a limit of its own. A
// busy host delays this process's ticks and its peers' heartbeats alike. The limit
// therefore grows by a multiple of the recent delay of the ticks.
type watchdog struct {
	heartbeat time.Duration
	silence   time.Duration // after which a process is lost
	join      time.Duration // how long a process may take to join
	began     time.Duration
	last      time.Duration // time of the previous tick
	late      time.Duration // recent delay of the ticks
}

const (
	// neverReceived replaces the time of a peer's last message.
	neverReceived = -1
	// lateFactor is the factor by which this process's delay extends the limit for
	// others.
	lateFactor = 4
	// lateTicks is roughly the number of ticks for which a delay is remembered.
	lateTicks = 32
)

// recordTick records a tick, of which there are two in each heartbeat. It reports whether
// this process itself was stopped since the previous one.
func (d *watchdog) recordTick(now time.Duration) (stood bool) {
	since := now - d.last
	d.last = now
	d.late = min(max(since-d.heartbeat/2, d.late-d.late/lateTicks), d.silence)
	return since > d.heartbeat
}

// checkSilence returns the reason why a peer is lost, or nil. received is the time of its
// last message.
func (d *watchdog) checkSilence(received, now time.Duration) error {
	if received == neverReceived {
		if silent := now - d.began; silent > max(d.join, d.silence) {
			return fmt.Errorf("its process joined and sent nothing for %v", silent.Round(time.Millisecond))
		}
		return nil
	}
	if silent, limit := now-received, d.silenceLimit(); silent > limit {
		return fmt.Errorf("nothing was received from its process for %v (limit %v); if it was only slow, raise elastic.heartbeat",
			silent.Round(time.Millisecond), limit.Round(time.Millisecond))
	}
	return nil
}

func (d *watchdog) silenceLimit() time.Duration { return d.silence + lateFactor*d.late }
