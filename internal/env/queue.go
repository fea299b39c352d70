package env

// Queue is a bounded first-in first-out queue between goroutines of a rank.
type Queue[T any] struct {
	mon    Monitor
	items  []T // ring
	head   int
	count  int
	closed bool
}

// NewQueue makes a queue that holds at most limit items.
func NewQueue[T any](e Env, name string, limit int) *Queue[T] {
	if limit < 1 {
		panic("env: queue " + name + " needs room for one item at least")
	}
	return &Queue[T]{mon: e.Monitor(name), items: make([]T, limit)}
}

// Put appends x, waiting while the queue is full. It reports false, and drops
// x, when the queue is closed.
func (q *Queue[T]) Put(x T) bool {
	q.mon.Lock()
	defer q.mon.Unlock()
	for q.count == len(q.items) && !q.closed {
		q.mon.Wait()
	}
	if q.closed {
		return false
	}
	q.items[(q.head+q.count)%len(q.items)] = x
	q.count++
	q.mon.Wake()
	return true
}

// Get removes the oldest item, waiting while the queue is empty. It reports
// false once the queue is closed and drained.
func (q *Queue[T]) Get() (T, bool) {
	var zero T
	q.mon.Lock()
	defer q.mon.Unlock()
	for q.count == 0 && !q.closed {
		q.mon.Wait()
	}
	if q.count == 0 {
		return zero, false
	}
	x := q.items[q.head]
	q.items[q.head] = zero
	q.head = (q.head + 1) % len(q.items)
	q.count--
	q.mon.Wake()
	return x, true
}

// Len returns the number of items in the queue.
func (q *Queue[T]) Len() int {
	q.mon.Lock()
	defer q.mon.Unlock()
	return q.count
}

// Close ends the queue: Put reports false from now on, Get drains the rest.
func (q *Queue[T]) Close() {
	q.mon.Lock()
	defer q.mon.Unlock()
	q.closed = true
	q.mon.Wake()
}

// Event happens once and carries an error.
type Event struct {
	mon  Monitor
	done bool
	err  error
}

// NewEvent makes an event that has not happened.
func NewEvent(e Env, name string) *Event { return &Event{mon: e.Monitor(name)} }

// Set makes the event happen. Only the first call has an effect.
func (v *Event) Set(err error) {
	v.mon.Lock()
	defer v.mon.Unlock()
	if !v.done {
		v.done, v.err = true, err
		v.mon.Wake()
	}
}

// Wait returns the event's error once it has happened.
func (v *Event) Wait() error {
	v.mon.Lock()
	defer v.mon.Unlock()
	for !v.done {
		v.mon.Wait()
	}
	return v.err
}

// Done reports whether the event has happened.
func (v *Event) Done() bool {
	v.mon.Lock()
	defer v.mon.Unlock()
	return v.done
}
