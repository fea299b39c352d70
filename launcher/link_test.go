package launcher

import (
	"testing"
	"time"
)

func TestSilenceOfLinks(t *testing.T) {
	ticks := func(l *link) (n int) {
		for n = 1; !l.countTick(); n++ {
		}
		return n
	}
	l := &link{}
	if n := ticks(l); n != silentBeats {
		t.Errorf("silent after %d ticks, want %d", n, silentBeats)
	}
	l.received.Add(1)
	if l.countTick() {
		t.Error("silent with a message")
	}
	l.received.Add(1)
	l.beginWatch()
	if n := ticks(l); n != silentBeats {
		t.Errorf("silent after %d ticks from the begin on, want %d", n, silentBeats)
	}
}

// While the loop is busy, the calls of postEvery do not pile up.
func TestCallsDoNotPileUp(t *testing.T) {
	l := newLoop()
	defer close(l.done)
	go l.postEvery(time.Millisecond, func() {})
	time.Sleep(50 * time.Millisecond)
	if n := len(l.events); n != 1 {
		t.Errorf("%d calls wait, want one", n)
	}
}
