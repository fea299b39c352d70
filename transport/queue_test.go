package transport

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQueueMovesNoItems: taking the first item moves no other, and a queue whose items go round and round moves each few times and
// has bounded memory.
func TestQueueMovesNoItems(t *testing.T) {
	const items = 1 << 12
	var q queue[int]
	for i := range items {
		q.push(i)
	}
	memory := q.items
	for i := range items - 1 {
		if x := q.pop(); x != i {
			t.Fatalf("item %d is taken, want %d", x, i)
		}
		for k := i + 1; k < items; k += 97 {
			if memory[k] != k {
				t.Fatalf("item %d has moved once %d items are taken", k, i+1)
			}
		}
	}
	q.pop()
	moved, rounds := 0, 64*items
	for i := range items {
		q.push(i)
	}
	for range rounds {
		x, first := q.pop(), q.first
		q.push(x)
		if q.first < first {
			moved += q.len()
		}
	}
	if moved > 2*rounds || cap(q.items) > 4*items {
		t.Errorf("%d items moved in %d rounds; there is room for %d items", moved, rounds, cap(q.items))
	}
}

// TestQueueIsInOrder compares a queue with a slice.
func TestQueueIsInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var q queue[int]
	var want []int
	for i := range 20_000 {
		switch k := r.IntN(20); {
		case k == 0:
			n := 1 + r.IntN(5)
			chosen := func(x int) bool { return x%n == 0 }
			var taken []int
			for _, x := range want {
				if chosen(x) {
					taken = append(taken, x)
				}
			}
			want = slices.DeleteFunc(want, chosen)
			if got := q.takeIf(chosen); !slices.Equal(got, taken) {
				t.Fatalf("takeIf takes %v, want %v", got, taken)
			}
		case k < 11:
			q.push(i)
			want = append(want, i)
		case len(want) > 0:
			if got := q.pop(); got != want[0] {
				t.Fatalf("pop takes %d, want %d", got, want[0])
			}
			want = want[1:]
		}
		if q.len() != len(want) || !slices.Equal(q.items[q.first:], want) {
			t.Fatalf("the queue has %v, want %v", q.items[q.first:], want)
		}
	}
}
