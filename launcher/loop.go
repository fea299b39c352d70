package launcher

import "time"

const maxEvents = 64

// loop runs one event after the other on one goroutine. State that only its events use needs
// no lock.
type loop struct {
	events chan func()
	done   chan struct{} // closed when the loop runs no more events
}

func newLoop() *loop { return &loop{events: make(chan func(), maxEvents), done: make(chan struct{})} }

// post has the loop run f, unless the loop has ended.
func (l *loop) post(f func()) {
	select {
	case l.events <- f:
	case <-l.done:
	}
}

// runUntil runs events until isOver, and calls decide for each value of wake.
func (l *loop) runUntil(isOver func() bool, wake <-chan struct{}, decide func()) {
	for !isOver() {
		select {
		case f := <-l.events:
			f()
		case <-wake:
			decide()
		}
	}
}

// postEvery posts f once per interval until the loop has ended. While the loop is busy no calls pile up: those that
// count the silence of others would count that time many times over.
func (l *loop) postEvery(interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	ran := make(chan struct{}, 1)
	for {
		select {
		case <-ticker.C:
		case <-l.done:
			return
		}
		l.post(func() {
			f()
			ran <- struct{}{}
		})
		select {
		case <-ran:
		case <-l.done:
			return
		}
	}
}
