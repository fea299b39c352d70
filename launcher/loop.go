package launcher

const maxEvents = 64

// loop is a goroutine that takes one event after the other. What it does needs no lock.
type loop struct {
	events chan func()
	done   chan struct{} // closed when no event is taken any more
}

func newLoop() *loop { return &loop{events: make(chan func(), maxEvents), done: make(chan struct{})} }

// post has the loop run f; not any more once it is over.
func (l *loop) post(f func()) {
	select {
	case l.events <- f:
	case <-l.done:
	}
}

// run takes events, and what a board decides (nil: there is none), until something is
// over.
func (l *loop) run(b *board, over func() bool) {
	var wake chan struct{}
	if b != nil {
		wake = b.wake
	}
	for !over() {
		select {
		case f := <-l.events:
			f()
		case <-wake:
			b.decide()
		}
	}
}
