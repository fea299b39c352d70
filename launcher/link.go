package launcher

import (
	"sync/atomic"

	"github.com/ecrec/ecrec/launcher/control"
	"github.com/ecrec/ecrec/launcher/wire"
)

// link is a connection whose received messages are counted, so that silence is noticed.
type link struct {
	*wire.Conn
	received atomic.Uint64 // messages
	last     uint64        // received at the last tick
	missed   int           // ticks in a row without a message
}

// beginWatch begins to count ticks.
func (l *link) beginWatch() { l.last, l.missed = l.received.Load(), 0 }

// countTick is called once per heartbeat. It reports whether nothing has arrived for
// silentBeats ticks. If this process itself was suspended, that counts as one tick.
func (l *link) countTick() (silent bool) {
	if received := l.received.Load(); received != l.last {
		l.last, l.missed = received, 0
		return false
	}
	l.missed++
	return l.missed >= silentBeats
}

// receiveAll calls handle for each message, except heartbeats, until the connection ends.
func (l *link) receiveAll(handle func(control.Message)) {
	for {
		m, err := l.Receive()
		if err != nil {
			l.Close()
			return
		}
		l.received.Add(1)
		if m.Kind != control.KindHeartbeat {
			handle(m)
		}
	}
}

// sendOrClose sends a message, or closes the connection; receiveAll returns then.
func (l *link) sendOrClose(m control.Message) {
	if l.Send(m) != nil {
		l.Close()
	}
}
