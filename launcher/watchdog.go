package launcher

import "time"

// watchdog detects a worker that falls silent after its first message.
type watchdog struct {
	link *link
	over chan struct{}
}

// startWatchdog calls silent once nothing has arrived on a link for silentBeats heartbeats.
// In a job that is not elastic it watches nothing.
func (s *supervisor) startWatchdog(l *link, silent func()) *watchdog {
	w := &watchdog{link: l, over: make(chan struct{})}
	if s.spec.Elastic {
		go w.watchLink(s.spec.Heartbeat, silent)
	}
	return w
}

func (w *watchdog) watchLink(heartbeat time.Duration, silent func()) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-w.over:
			return
		}
		if w.link.received.Load() > 0 && w.link.countTick() {
			silent()
			return
		}
	}
}

func (w *watchdog) stop() { close(w.over) }
