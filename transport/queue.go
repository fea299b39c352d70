package transport

// queue is a first-in, first-out queue. Taking an item moves no other: a link may have many
// thousands of requests, and its monitor is held meanwhile.
type queue[T any] struct {
	items []T // those before first are taken
	first int
}

func (q *queue[T]) len() int { return len(q.items) - q.first }

// push adds an item. It moves the others if most of the memory is free.
func (q *queue[T]) push(x T) {
	if len(q.items) == cap(q.items) && q.first > len(q.items)/2 {
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	q.items = append(q.items, x)
}

// pop takes the oldest item. There must be one.
func (q *queue[T]) pop() T {
	var none T
	x := q.items[q.first]
	q.items[q.first] = none
	if q.first++; q.first == len(q.items) {
		q.items, q.first = q.items[:0], 0
	}
	return x
}

// takeIf takes the items for which take returns true, in order.
func (q *queue[T]) takeIf(take func(T) bool) (taken []T) {
	kept := q.items[:q.first]
	for _, x := range q.items[q.first:] {
		if take(x) {
			taken = append(taken, x)
		} else {
			kept = append(kept, x)
		}
	}
	clear(q.items[len(kept):])
	q.items = kept
	return taken
}
