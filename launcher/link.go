package launcher

import (
	"sync/atomic"
	"time"
)

// silentBeats is after how many heartbeats a silent process is lost.
const silentBeats = 5

// doubtBeats is for how many heartbeats the job hears who else has left a world, once a
// worker has for one of whose end nobody has heard.
const doubtBeats = 4

// link is a connection between a supervisor and a voter.
type link struct {
	*wire
	heard  atomic.Uint64 // messages
	last   uint64        // heard at the last tick
	missed int           // ticks in a row without a message
}

// tick comes once a heartbeat. It reports whether nothing was heard for silentBeats of
// them: should this process itself stand still, that counts as one.
func (l *link) tick() (silent bool) {
	if heard := l.heard.Load(); heard != l.last {
		l.last, l.missed = heard, 0
		return false
	}
	l.missed++
	return l.missed >= silentBeats
}

// listen hands on what comes, but for beats, until the connection ends.
func (l *link) listen(hear func(message)) {
	for {
		m, err := l.receive()
		if err != nil {
			l.conn.Close()
			return
		}
		l.heard.Add(1)
		if m.Kind != kindBeat {
			hear(m)
		}
	}
}

// tell sends, or ends the connection: listen says so.
func (l *link) tell(m message) {
	if l.send(m) != nil {
		l.conn.Close()
	}
}

// every calls f once a heartbeat on a loop.
func (l *loop) every(heartbeat time.Duration, f func()) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.post(f)
		case <-l.done:
			return
		}
	}
}
